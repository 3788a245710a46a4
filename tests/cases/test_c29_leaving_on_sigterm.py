"""C29: on SIGTERM nothing new is taken, what runs may end, and a second signal ends all at once.

vllm#24885, kserve#5496, hypercorn#128, PostHog#73863, llm-d#2444.
"""

import asyncio
import time
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import Launch
from tests.support.launched_cluster import LaunchedCluster
from tests.support.streaming_client import Answer, StreamingClient
from tests.support.waiting import wait_until, wait_until_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

NUM_STREAMS = 5


class Streams:
    """Some streams that run while their cluster is told to leave."""

    def __init__(self, cluster: LaunchedCluster, num_tokens: int) -> None:
        self.answers: list[Answer] = []
        self._task = asyncio.create_task(self._run(cluster, num_tokens))

    async def _run(self, cluster: LaunchedCluster, num_tokens: int) -> None:
        bodies = [{"prompt": "Hi", "max_tokens": num_tokens, "ignore_eos": True}] * NUM_STREAMS
        async with StreamingClient(cluster.url) as client:
            await client.complete_all(bodies, NUM_STREAMS, self.answers)

    async def have_begun(self) -> None:
        await wait_until_async(
            lambda: sum(bool(answer.token_ids) for answer in self.answers) == NUM_STREAMS, 30
        )

    async def have_ended(self) -> list[Answer]:
        await self._task
        return self.answers


async def test_streams_end_and_nothing_new_is_taken(launch: Launch) -> None:
    cluster = launch("--dp=1", "--frontends=1")
    parts = urlsplit(cluster.url)
    _, idle = await asyncio.open_connection(parts.hostname, parts.port)
    streams = Streams(cluster, 250)
    await streams.have_begun()
    cluster.process.terminate()

    def refuses() -> bool:
        answer = cluster.post("/v1/completions", prompt="Hi", max_tokens=1)
        return answer.status_code == 503 and "retry-after" in answer.headers

    await asyncio.to_thread(wait_until, refuses, 5)
    for path in ("/ready", "/health"):
        assert (await asyncio.to_thread(cluster.get, path)).status_code == 503
    answers = await streams.have_ended()
    assert [answer.error for answer in answers if not answer.is_whole] == []
    assert await asyncio.to_thread(cluster.process.wait, 20) == 0
    idle.close()


@pytest.mark.drill
async def test_when_the_time_is_over_streams_end_with_an_error(launch: Launch) -> None:
    cluster = launch("--dp=1", "--frontends=1", "--shutdown-timeout=0.5")
    streams = Streams(cluster, 3000)
    await streams.have_begun()
    cluster.process.terminate()
    for answer in await streams.have_ended():
        assert "shutting down" in answer.error
        assert not answer.is_done
        assert answer.finish_reason is None
    assert await asyncio.to_thread(cluster.process.wait, 20) == 1


@pytest.mark.drill
async def test_a_second_signal_ends_it_at_once(launch: Launch) -> None:
    cluster = launch("--dp=1", "--frontends=1")
    streams = Streams(cluster, 3000)
    await streams.have_begun()
    cluster.process.terminate()
    await asyncio.to_thread(wait_until, lambda: cluster.get("/ready").status_code == 503, 5)
    asked_at = time.monotonic()
    cluster.process.terminate()
    assert await asyncio.to_thread(cluster.process.wait, 20) == 143
    assert time.monotonic() - asked_at < 5
    assert not any(answer.is_whole for answer in await streams.have_ended())
