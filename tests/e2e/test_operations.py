"""Drain, restart and scale under streaming load: clients notice nothing."""

import asyncio
import contextlib
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.launched_cluster import LaunchedCluster
from tests.support.streaming_client import Answer, StreamingClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

ADMIN = {"Authorization": "Bearer boss"}
CONCURRENCY = 8


def body(number: int) -> dict[str, Any]:
    """One of a few requests, greedy or seeded, of a second or so."""
    source = random.Random(number)
    return {
        "prompt": source.choices(range(3, 300), k=source.randrange(2, 100)),
        "max_tokens": 80,
        "ignore_eos": True,
        "temperature": 0.0 if number % 2 else 0.8,
        "seed": number,
    }


BODIES = [body(number) for number in range(CONCURRENCY)]


@pytest.fixture(scope="module")
def cluster(tiny_model: Path) -> Iterator[LaunchedCluster]:
    cluster = LaunchedCluster(
        f"--model={tiny_model}", "--engine=simulated", "--dp=2", "--frontends=2",
        "--kv-cache-memory=64MiB", "--check-invariants", "--admin-key=boss",
    )  # fmt: skip
    yield cluster.wait_until_ready()
    cluster.close()


def operate(cluster: LaunchedCluster, *words: str) -> str:
    """The last line of a `cluster` command that has to succeed."""
    result = subprocess.run(
        [sys.executable, "-P", "-m", "cluster", *words],
        env={"XDG_RUNTIME_DIR": str(cluster.directory)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()[-1]


async def under_load(cluster: LaunchedCluster, action: Callable[[], object]) -> list[Answer]:
    """Stream one answer after the other on many connections while the action runs, and check them."""
    url = cluster.url
    async with StreamingClient(url) as client:
        expected = await client.complete_all(BODIES, CONCURRENCY)
    is_over = asyncio.Event()
    answers: list[Answer] = []

    async def stream_on(number: int) -> None:
        async with StreamingClient(url) as client:
            while not is_over.is_set():
                answer = Answer()
                await client.complete(answer, **BODIES[number])
                answers.append(answer)
                assert answer.is_whole, answer.error
                assert answer.text == expected[number].text
                assert answer.token_ids == expected[number].token_ids

    async with asyncio.TaskGroup() as streams:
        for number in range(CONCURRENCY):
            streams.create_task(stream_on(number))
        await asyncio.sleep(0)
        try:
            await asyncio.to_thread(action)
        finally:
            is_over.set()
    assert len(answers) >= CONCURRENCY
    wait_until(cluster.is_idle, 10)
    return answers


def processes(cluster: LaunchedCluster) -> dict[str, tuple[int, str]]:
    return {p.name: (p.incarnation, p.state) for p in cluster.status().processes}


async def test_a_drained_engine_is_missed_by_nobody_and_comes_back(
    cluster: LaunchedCluster,
) -> None:
    cluster.wait_until_ready()
    incarnation = cluster.find("engine 1").incarnation

    def drain_and_restart() -> None:
        for _ in range(2):
            assert operate(cluster, "drain", "1") == "drain engine 1: done"
            assert cluster.find("engine 1").state == "drained"
        for more in (1, 2):
            assert operate(cluster, "restart", "1") == "restart engine 1: done"
            assert cluster.find("engine 1").incarnation == incarnation + more

    answers = await under_load(cluster, drain_and_restart)
    assert [answer.num_migrations for answer in answers] == [0] * len(answers)


async def test_requests_of_a_drain_whose_deadline_passes_move(cluster: LaunchedCluster) -> None:
    cluster.wait_until_ready()

    def drain_and_restart() -> None:
        operate(cluster, "drain", "0", "--deadline", "0")
        operate(cluster, "restart", "0")

    answers = await under_load(cluster, drain_and_restart)
    assert any(answer.num_migrations for answer in answers)
    assert cluster.metric("quadriga_request_migrations_total", cause="drained") > 0


async def test_a_rolling_restart_fails_no_request(cluster: LaunchedCluster) -> None:
    cluster.wait_until_ready()
    before = processes(cluster)
    await under_load(cluster, lambda: operate(cluster, "restart", "--rolling"))
    cluster.wait_until_ready()
    assert processes(cluster) == {
        name: (incarnation + 1, "ready") for name, (incarnation, _) in before.items()
    }
    assert cluster.metric("quadriga_process_restarts_total") == 0


async def test_scaling_up_and_down_fails_no_request(cluster: LaunchedCluster) -> None:
    cluster.wait_until_ready()

    def scale() -> None:
        for engines, frontends in ((4, 3), (4, 3), (1, 1), (1, 1), (2, 2)):
            operate(cluster, "scale", "--dp", str(engines), "--frontends", str(frontends))
            names = list(processes(cluster))
            assert sum(name.startswith("engine") for name in names) == engines
            assert sum(name.startswith("frontend") for name in names) == frontends

    await under_load(cluster, scale)
    metrics = cluster.get("/metrics").text
    assert 'quadriga_engine_up{engine="1"} 1.0' in metrics
    assert 'quadriga_engine_up{engine="2"}' not in metrics
    assert cluster.get("/health").json()["engines"] == 2


async def test_the_only_frontend_is_restarted_without_a_refused_connection(
    cluster: LaunchedCluster,
) -> None:
    cluster.wait_until_ready()
    operate(cluster, "scale", "--dp", "1", "--frontends", "1")
    try:
        await under_load(cluster, lambda: operate(cluster, "restart", "--rolling"))
    finally:
        operate(cluster, "scale", "--dp", "2", "--frontends", "2")


def ask(cluster: LaunchedCluster, verb: str, **fields: Any) -> httpx.Response:
    return httpx.post(
        f"{cluster.url}/cluster/{verb}", json=fields, headers=ADMIN, timeout=10, trust_env=False
    )


def follow(cluster: LaunchedCluster, number: int) -> dict[str, Any]:
    """How this operation ended, as HTTP tells it."""

    def look() -> dict[str, Any] | None:
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.get(
                f"{cluster.url}/cluster/operation", headers=ADMIN, timeout=10, trust_env=False
            )
            last: dict[str, Any] | None = json.loads(answer.text)["last_operation"]
            return last if last is not None and last["number"] == number else None
        return None

    found = wait_until(look, 60)
    assert found is not None
    return found


async def test_all_of_it_works_over_http_with_the_admin_key(cluster: LaunchedCluster) -> None:
    cluster.wait_until_ready()
    assert cluster.post("/cluster/drain", engine=1).status_code == 401

    def operate_over_http() -> None:
        for verb, fields in (
            ("drain", {"engine": 1, "deadline": 30}),
            ("drain", {"engine": 1}),
            ("restart", {"engine": 1}),
            ("scale", {"engines": 3}),
            ("scale", {"engines": 2, "frontends": 2}),
            ("restart", {"rolling": True}),
        ):
            answer = ask(cluster, verb, **fields)
            assert answer.status_code == 202, answer.text
            assert follow(cluster, answer.json()["number"])["outcome"] == "done"

    await under_load(cluster, operate_over_http)
