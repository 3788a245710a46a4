"""`kill -9` of an engine in mid-stream, again and again, under load, with the embedded model."""

import asyncio
import random
from typing import Any

import pytest

from tests.e2e.test_faults import check_equal
from tests.support.launched_cluster import LaunchedCluster, embedded_model
from tests.support.questions import QUESTIONS, as_chat
from tests.support.streaming_client import Answer, StreamingClient
from tests.support.waiting import wait_until, wait_until_async

pytestmark = pytest.mark.drill

NUM_KILLS, CONCURRENCY, MAX_TOKENS = 20, 16, 96


def bodies() -> list[dict[str, Any]]:
    """64 requests, every other one sampled with a seed."""
    return [
        {
            "prompt": as_chat(question),
            "max_tokens": MAX_TOKENS,
            "ignore_eos": True,
            "temperature": 0.8 if number % 2 else 0.0,
            "seed": number,
        }
        for number, question in enumerate(QUESTIONS)
    ]


async def test_twenty_kills_lose_no_request_and_change_no_token() -> None:
    cluster = LaunchedCluster(
        "--dp=2", "--frontends=2", "--max-restarts=100", "--check-invariants", *embedded_model()
    ).wait_until_ready()
    try:
        async with StreamingClient(cluster.url) as client:
            expected = await client.complete_all(bodies(), CONCURRENCY)
            assert all(answer.is_whole for answer in expected)
            moved: list[Answer] = []
            kills = 0
            while kills < NUM_KILLS:
                answers: list[Answer] = []
                everything = asyncio.create_task(
                    client.complete_all(bodies(), CONCURRENCY, answers)
                )
                kills += await kill_meanwhile(cluster, everything, answers, kills)
                await everything
                check_equal(answers, expected)
                moved += [answer for answer in answers if answer.num_migrations]
        wait_until(cluster.is_idle, 10)
        gaps = sorted(answer.longest_gap_seconds for answer in moved)
        print(
            f"{kills} kills, {len(moved)} streams moved, 0 requests failed, every text equal; gap of a "
            f"moved stream: median {gaps[len(gaps) // 2]:.2f} s, p99 {gaps[int(len(gaps) * 0.99)]:.2f} s, "
            f"longest {gaps[-1]:.2f} s"
        )
        assert cluster.metric("quadriga_engine_restarts_total") == kills
    finally:
        cluster.close()


async def kill_meanwhile(
    cluster: LaunchedCluster, load: "asyncio.Task[list[Answer]]", answers: list[Answer], before: int
) -> int:
    """Kill the engines in turn at moments of all kinds while the load lasts; how often it was done."""
    source = random.Random(before)
    kills = 0

    def num_tokens() -> int:
        return sum(len(answer.token_ids) for answer in answers)

    while before + kills < NUM_KILLS:
        wanted = num_tokens() + source.randrange(50, 1500)

        def is_time(wanted: int = wanted) -> bool:
            return load.done() or num_tokens() >= wanted

        await wait_until_async(is_time, 120)
        if load.done() or sum(answer.is_whole for answer in answers) > len(answers) - 4:
            break
        name = f"engine {(before + kills) % 2}"
        seconds = await asyncio.to_thread(kill_and_wait, cluster, name)
        kills += 1
        print(f"kill {before + kills}: {name} is back after {seconds:.1f} s")
    return kills


def kill_and_wait(cluster: LaunchedCluster, name: str) -> float:
    """Seconds from the kill until the engine serves again."""
    incarnation = cluster.find(name).incarnation
    cluster.kill(name)
    return cluster.wait_until_restarted(name, incarnation + 1)
