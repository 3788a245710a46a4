"""What each frontend knows of each engine's prefix cache, over the real wire and after real faults."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.wire.block_hash import hash_blocks
from cluster.wire.messages import BlockEvents, ProcessExited, Role
from cluster.wire.sampling import SamplingParams
from engine.block_event_batch import BlockEventBatch
from frontend.client import DPLBClient
from frontend.routing.prefix_index import PrefixIndex
from tests.support.small_cluster import SmallCluster, new_request, read_all
from tests.support.waiting import wait_until_async

HASHES = [bytes([number]) for number in range(6)]
PREFIX = list(range(400))
PREFIX_HASHES = hash_blocks(PREFIX, 8)


class Publisher:
    """An engine's cache and what it tells of it, on a link that a test can disturb."""

    def __init__(self) -> None:
        self.cached: set[bytes] = set()
        self.seq = 0
        self.link: list[BlockEvents] = []
        self._batch = BlockEventBatch()

    def step(self, cached: set[bytes]) -> None:
        self._batch.add(cached - self.cached, self.cached - cached)
        self.cached = cached

    def publish(self) -> None:
        for changes in self._batch.take():
            self.seq += 1
            self.link.append(BlockEvents(0, 1, self.seq, *changes))

    def publish_all(self) -> None:
        self._batch.start_over(self.cached)
        self.publish()


def deliver(publisher: Publisher, index: PrefixIndex) -> None:
    while publisher.link:
        index.apply(publisher.link.pop(0))


Fate = Literal["gathered", "waits", "arrives", "lost", "doubled", "overtaken", "told whole"]


@given(st.lists(st.tuples(st.sets(st.sampled_from(HASHES)), st.sampled_from(get_args(Fate)))))
def test_whatever_is_lost_repeated_or_out_of_order_the_index_comes_to_what_is_cached(
    story: list[tuple[set[bytes], Fate]],
) -> None:
    publisher, index = Publisher(), PrefixIndex(8)
    for cached, fate in story:
        publisher.step(cached)
        if fate != "gathered":
            publisher.publish()
        match fate:
            case "gathered" | "waits":
                pass
            case "arrives":
                deliver(publisher, index)
            case "lost":
                publisher.link = publisher.link[:-1]
            case "doubled":
                publisher.link += publisher.link[-1:]
            case "overtaken":
                publisher.link.reverse()
            case "told whole":
                publisher.publish_all()
    publisher.publish()
    deliver(publisher, index)
    if index.is_behind(publisher.seq):
        publisher.publish_all()
        deliver(publisher, index)
    assert not index.is_behind(publisher.seq)
    assert index._known == publisher.cached


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SmallCluster]:
    cluster = SmallCluster(tmp_path, num_engines=2)
    yield cluster
    await cluster.close()


async def compute_prefix(client: DPLBClient, rank: int) -> None:
    """Let an engine compute a prompt, and keep it."""
    request = new_request(PREFIX, SamplingParams(max_tokens=2), time.monotonic(), pinned_rank=rank)
    await read_all(client.submit(request))


def known_tokens(client: DPLBClient, rank: int) -> int:
    """How much of the prompt this frontend takes an engine to hold."""
    book = client._view.books.get(rank)
    return book.prefix.hit_tokens(PREFIX_HASHES) if book is not None else 0


def is_known_idle(client: DPLBClient, rank: int) -> bool:
    """Whether nothing waits or runs in an engine by the newest report that has come here."""
    report = client._view.books[rank].report
    return report is not None and report.waiting + report.running == 0


async def knows_of_prefix(client: DPLBClient, rank: int) -> None:
    """Wait for the news of the prefix, and for that of the end of whoever had it computed.

    They come by two ways, in any order; and a request that runs costs more than so small a hit saves.
    """
    await wait_until_async(
        lambda: known_tokens(client, rank) == len(PREFIX) and is_known_idle(client, rank)
    )


async def check_goes_to(client: DPLBClient, rank: int) -> None:
    """What begins with the prompt goes there each time, and finds it."""
    for end in range(4):
        request = new_request([*PREFIX, end], SamplingParams(max_tokens=2), time.monotonic())
        stream = client.submit(request)
        assert stream.engine_rank == rank
        await read_all(stream)
        assert stream.cached_tokens == len(PREFIX)


async def test_a_prefix_that_one_frontend_has_had_computed_is_found_by_another(
    cluster: SmallCluster,
) -> None:
    first, second = await cluster.start_client(0), await cluster.start_client(1)
    await compute_prefix(first, rank=1)
    await knows_of_prefix(second, rank=1)
    await check_goes_to(second, rank=1)
    assert known_tokens(second, rank=0) == 0


async def test_what_was_cached_while_the_coordinator_was_away_is_known_when_it_is_back(
    cluster: SmallCluster,
) -> None:
    first, second = await cluster.start_client(0), await cluster.start_client(1)
    cluster.coordinator.kill()
    cluster.coordinator.wait()
    await compute_prefix(first, rank=1)
    assert known_tokens(second, rank=1) == 0
    cluster.start_coordinator()
    await knows_of_prefix(second, rank=1)
    await knows_of_prefix(first, rank=1)
    await check_goes_to(second, rank=1)


async def test_a_frontend_that_is_started_again_learns_what_is_cached(
    cluster: SmallCluster,
) -> None:
    first, second = await cluster.start_client(0), await cluster.start_client(1)
    await compute_prefix(first, rank=1)
    cluster.clients.remove(second)
    await second.stop()
    cluster.tell(ProcessExited(Role.FRONTEND, 1, 1, "SIGKILL", fault=False))
    again = await cluster.start_client(1, incarnation=2)
    await knows_of_prefix(again, rank=1)
    await check_goes_to(again, rank=1)


async def test_an_engine_that_is_started_again_is_known_to_hold_nothing(
    cluster: SmallCluster,
) -> None:
    client = await cluster.start_client()
    await compute_prefix(client, rank=1)
    await knows_of_prefix(client, rank=1)
    cluster.kill_engine(1)
    cluster.start_engine(1, incarnation=2)
    await wait_until_async(lambda: client._view.is_current(1, 2), 20)
    assert known_tokens(client, rank=1) == 0
    await compute_prefix(client, rank=1)
    await knows_of_prefix(client, rank=1)


async def test_a_cache_that_is_reset_is_known_to_be_empty(cluster: SmallCluster) -> None:
    client = await cluster.start_client()
    await compute_prefix(client, rank=1)
    await knows_of_prefix(client, rank=1)
    await client.call_engines("reset_prefix_cache")
    await wait_until_async(lambda: client._view.books[1].prefix.num_blocks == 0)


async def test_many_who_ask_at_once_cost_one_publication(cluster: SmallCluster) -> None:
    first, second = await cluster.start_client(0), await cluster.start_client(1)
    asked = await asyncio.gather(
        first.call_engines("publish_blocks"), second.call_engines("publish_blocks")
    )
    assert sorted(results[0].result for results in asked) == ["false", "true"]
