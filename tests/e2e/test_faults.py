"""Real processes killed and frozen under real load, over a tiny model."""

import asyncio
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import Launch
from tests.support.launched_cluster import LaunchedCluster
from tests.support.processes import is_running
from tests.support.streaming_client import Answer, StreamingClient
from tests.support.waiting import wait_until, wait_until_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

PACE = "slow:seconds=0.01:times=1000000"
"""Slows every step down, so that no answer ends before a fault strikes, however fast the machine."""
NUM_TOKENS = 300


def bodies(count: int, max_tokens: int) -> list[dict[str, Any]]:
    """Greedy and seeded sampling, of many prompt lengths."""
    source = random.Random(2)
    return [
        {
            "prompt": source.choices(range(3, 300), k=source.randrange(2, 100)),
            "max_tokens": max_tokens,
            "ignore_eos": True,
            "temperature": 0.0 if number % 2 else 0.8,
            "seed": number,
        }
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def faulted_cluster(tiny_model: Path) -> Iterator[LaunchedCluster]:
    cluster = LaunchedCluster(
        f"--model={tiny_model}", "--dp=2", "--frontends=2", "--kv-cache-memory=64MiB",
        "--check-invariants", "--max-restarts=20", f"--inject-fault={PACE}",
    )  # fmt: skip
    yield cluster.wait_until_ready()
    cluster.close()


@pytest.fixture
def cluster(faulted_cluster: LaunchedCluster) -> LaunchedCluster:
    """A whole cluster, whatever the test before has done to it."""
    return faulted_cluster.wait_until_ready()


async def run_with_fault(
    cluster: LaunchedCluster,
    fault: Callable[[], object],
    count: int = 16,
    max_tokens: int = NUM_TOKENS,
) -> list[Answer]:
    """Stream some answers, and let the fault strike once all have begun."""
    answers: list[Answer] = []
    async with StreamingClient(cluster.url) as client:
        everything = asyncio.create_task(
            client.complete_all(bodies(count, max_tokens), count, answers, ramp_seconds=0.2)
        )
        await wait_until_async(lambda: sum(len(a.token_ids) > 50 for a in answers) == count, 60)
        await asyncio.to_thread(fault)
        await everything
    return answers


async def undisturbed(
    cluster: LaunchedCluster, count: int = 16, max_tokens: int = NUM_TOKENS
) -> list[Answer]:
    async with StreamingClient(cluster.url) as client:
        return await client.complete_all(bodies(count, max_tokens), count)


def check_equal(answers: list[Answer], expected: list[Answer]) -> None:
    for number, (answer, right) in enumerate(zip(answers, expected, strict=True)):
        assert answer.is_whole, f"{number}: {answer.error}"
        assert answer.token_ids == right.token_ids, number
        assert answer.text == right.text, number
        assert answer.usage is not None
        assert right.usage is not None
        for field in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert answer.usage[field] == right.usage[field], number


async def test_kill_9_of_an_engine_loses_nothing_and_changes_nothing(
    cluster: LaunchedCluster,
) -> None:
    expected = await undisturbed(cluster)
    incarnation = cluster.find("engine 0").incarnation
    answers = await run_with_fault(cluster, lambda: cluster.kill("engine 0"))
    check_equal(answers, expected)
    assert any(answer.num_migrations == 1 for answer in answers)
    assert cluster.metric("quadriga_request_migrations_total", cause="SIGKILL") > 0
    cluster.wait_until_restarted("engine 0", incarnation + 1)
    before = cluster.metric("quadriga_generation_tokens_total", engine="0")
    check_equal(await undisturbed(cluster), expected)
    assert cluster.metric("quadriga_generation_tokens_total", engine="0") > before
    assert cluster.metric("quadriga_engine_restarts_total", engine="0") == incarnation
    assert cluster.metric("quadriga_engine_up") == 2
    wait_until(cluster.is_idle, 5)


async def test_kill_9_of_the_coordinator_disturbs_nobody(cluster: LaunchedCluster) -> None:
    expected = await undisturbed(cluster)
    answers = await run_with_fault(cluster, lambda: cluster.kill("coordinator"))
    check_equal(answers, expected)
    assert [answer.num_migrations for answer in answers] == [0] * len(answers)
    cluster.wait_until_ready()
    assert cluster.get("/ready").status_code == 200


async def test_kill_9_of_a_frontend_breaks_only_its_own_connections(
    cluster: LaunchedCluster,
) -> None:
    answers = await run_with_fault(cluster, lambda: cluster.kill("frontend 0"))
    whole = [answer for answer in answers if answer.is_whole]
    broken = [answer for answer in answers if not answer.is_whole]
    assert all("RemoteProtocolError" in a.error or "ReadError" in a.error for a in broken)
    assert whole
    assert cluster.get("/ready").status_code == 200  # the port keeps answering
    wait_until(cluster.is_idle, 1 + 5)
    cluster.wait_until_ready()


async def test_a_dead_frontends_requests_leave_the_engines_within_a_second(
    launch: Launch, tiny_model: Path
) -> None:
    cluster = launch(f"--model={tiny_model}", "--dp=1", "--frontends=1", "--kv-cache-memory=64MiB")

    def kill() -> None:
        assert cluster.find("engine 0").running == 16
        cluster.kill("frontend 0")
        wait_until(lambda: cluster.find("engine 0").running == 0, 1)

    await run_with_fault(cluster, kill, max_tokens=3500)


async def test_a_frozen_engines_streams_go_on_elsewhere_and_nothing_of_it_is_believed(
    cluster: LaunchedCluster,
) -> None:
    expected = await undisturbed(cluster)
    pid = 0

    def freeze() -> None:
        nonlocal pid
        pid = cluster.signal("engine 0", signal.SIGSTOP)

    answers = await run_with_fault(cluster, freeze)
    check_equal(answers, expected)
    gaps = [answer.longest_gap_seconds for answer in answers if answer.num_migrations]
    assert gaps
    assert max(gaps) < 8  # 3 s until the verdict, and the way back through the queue
    if is_running(pid):
        os.kill(pid, signal.SIGCONT)
    cluster.wait_until_ready()
    check_equal(await undisturbed(cluster), expected)


async def test_when_the_launcher_is_killed_nobody_is_left(launch: Launch, tiny_model: Path) -> None:
    cluster = launch(f"--model={tiny_model}", "--dp=2", "--frontends=2")
    pids = [process.pid for process in cluster.status().processes]
    assert len(pids) == 5
    assert all(is_running(pid) for pid in pids)
    cluster.process.kill()
    wait_until(lambda: not any(is_running(pid) for pid in pids), 5)


async def test_sigterm_lets_streams_finish_and_refuses_new_ones(
    launch: Launch, tiny_model: Path
) -> None:
    cluster = launch(f"--model={tiny_model}", "--dp=2", "--frontends=2", f"--inject-fault={PACE}")
    url = cluster.url
    refused: list[int] = []

    def stop_and_knock() -> None:
        cluster.process.terminate()

        def is_refused() -> bool:
            body = {"prompt": "x", "max_tokens": 1}
            answer = httpx.post(f"{url}/v1/completions", json=body, trust_env=False, timeout=10)
            refused.append(answer.status_code)
            return answer.status_code == 503 and "retry-after" in answer.headers

        wait_until(is_refused, 5)

    answers = await run_with_fault(cluster, stop_and_knock)
    assert [answer.error or "cut" for answer in answers if not answer.is_whole] == []
    assert refused[-1] == 503
    assert cluster.process.wait(20) == 0
    assert not cluster.run_directory.exists()


async def test_with_every_engine_dead_requests_wait_and_are_answered(
    cluster: LaunchedCluster,
) -> None:
    expected = await undisturbed(cluster)

    def kill_both() -> None:
        for name in ("engine 0", "engine 1"):
            cluster.kill(name)

    check_equal(await run_with_fault(cluster, kill_both), expected)
