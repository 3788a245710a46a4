"""C25: a client that goes away frees its place at once, and is aborted exactly once.

sglang#36333, sglang#34894, vllm#9428, ATOM#1589, hypercorn#59, starlette#2620, vllm#25067.
"""

import asyncio
import json

import httpx
import pytest

from tests.support.asgi_call import AsgiCall
from tests.support.frontend_app import ANSWER, engine_that_says, make_app
from tests.support.launched_cluster import LaunchedCluster
from tests.support.waiting import wait_until, wait_until_async
from tests.support.ways import Way

NUM_CLIENTS = 20


@pytest.mark.parametrize("held_after", [0, 3])
async def test_each_unfinished_choice_is_ended_once(way: Way, held_after: int) -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=held_after)
    app = make_app(engine)
    async with app.router.lifespan_context(app):
        call = AsgiCall(app, way.path, json.dumps(way.body(n=3)).encode())
        async with asyncio.timeout(5):
            await engine.wait_until_holding()
            call.leave()
            await call.end()
        assert sorted(request_id[-1] for request_id in engine.aborted) == ["0", "1", "2"]
    await engine.close()


def num_aborted(cluster: LaunchedCluster) -> float:
    return cluster.metric("quadriga_request_success_total", finished_reason="abort")


def num_restarts(cluster: LaunchedCluster) -> int:
    return sum(process.restarts for process in cluster.status().processes)


async def ask_and_leave(cluster: LaunchedCluster, way: Way, num_clients: int) -> None:
    """Ask so many times at once, and leave when the engines are at work."""
    async with httpx.AsyncClient(
        base_url=cluster.url, timeout=60, trust_env=False, limits=httpx.Limits()
    ) as client:
        asking = [
            asyncio.create_task(way.send(client, max_tokens=3000, ignore_eos=True))
            for _ in range(num_clients)
        ]
        await wait_until_async(lambda: num_running(cluster) == num_clients)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


def num_running(cluster: LaunchedCluster) -> int:
    return sum(engine["load"]["running"] for engine in cluster.engines())


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_places_and_blocks_are_free_within_two_seconds(
    way: Way, cluster: LaunchedCluster
) -> None:
    before, restarts = num_aborted(cluster), num_restarts(cluster)
    await ask_and_leave(cluster, way, NUM_CLIENTS)
    wait_until(cluster.is_idle, 2)
    wait_until(lambda: num_aborted(cluster) - before >= NUM_CLIENTS, 2)
    assert num_aborted(cluster) - before == NUM_CLIENTS
    assert num_restarts(cluster) == restarts


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_a_normal_end_is_no_abort(way: Way, cluster: LaunchedCluster) -> None:
    before = num_aborted(cluster)
    async with httpx.AsyncClient(base_url=cluster.url, trust_env=False, timeout=60) as client:
        await asyncio.gather(*(way.ask(client, max_tokens=5) for _ in range(NUM_CLIENTS)))
        await way.ask(client, stop=[" ", "e", "a"], max_tokens=50)
    wait_until(cluster.is_idle, 2)
    assert num_aborted(cluster) == before


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_one_that_leaves_the_queue_frees_its_place_there(
    way: Way, small_cluster: LaunchedCluster
) -> None:
    async with httpx.AsyncClient(base_url=small_cluster.url, timeout=60, trust_env=False) as client:
        asking = [
            asyncio.create_task(way.send(client, max_tokens=3000, ignore_eos=True))
            for _ in range(5)
        ]
        await wait_until_async(lambda: num_running(small_cluster) == 2)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        wait_until(small_cluster.is_idle, 2)
        assert small_cluster.get("/cluster").json()["queued"] == 0
        await way.ask(client, max_tokens=2)
