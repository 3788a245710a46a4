"""Hostile messages over real sockets: into a running small cluster, and into an engine's input."""

import asyncio
import queue
import random
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from cluster.wire.block_hash import HASH_SEED
from cluster.wire.codec import Encoder
from cluster.wire.endpoints import VIEW_TOPIC, Endpoints
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    AbortRequests,
    ClusterView,
    EngineHello,
    FrontendEntry,
)
from cluster.wire.sampling import SamplingParams
from cluster.wire.sockets import Context, bind_router, bind_xpub, receive_all, try_send
from engine.arrivals import Arrived
from engine.input_io import FrontendGone, FrontendJoined, InputItem, InputThread
from loadtests.drills.hostile_frames import malformed_messages
from loadtests.drills.wire_attacker import WireAttacker
from tests.support.small_cluster import SmallCluster, expected_output, new_request, read_all
from tests.support.waiting import wait_until

MOST_MORE_BYTES = 150 * 2**20


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SmallCluster]:
    cluster = SmallCluster(tmp_path, 2)
    yield cluster
    await cluster.close()


async def test_a_cluster_under_attack_on_every_socket_serves_on(
    cluster: SmallCluster, tmp_path: Path
) -> None:
    client = await cluster.start_client()
    processes = [cluster.coordinator, *(engine.process for engine in cluster.engines.values())]
    before = [psutil.Process(process.pid).memory_info().rss for process in processes]
    attack = asyncio.create_task(asyncio.to_thread(WireAttacker(tmp_path).attack))
    number = 0
    while not attack.done():
        number += 1
        stream = client.submit(
            new_request([number, 2, 3], SamplingParams(max_tokens=20), time.monotonic())
        )
        async with asyncio.timeout(30):
            assert await read_all(stream) == expected_output(stream.request)
    sent = await attack
    assert {name.rpartition(".")[2] for name in sent} == {"outputs", "requests", "reports", "view"}
    assert all(process.poll() is None for process in processes)
    after = [psutil.Process(process.pid).memory_info().rss for process in processes]
    assert all(b - a < MOST_MORE_BYTES for a, b in zip(before, after, strict=True))
    assert client.num_ready_engines == 2


class HostileFrontend:
    """A ROUTER and a view that an engine's input thread believes; what it sends is for the test."""

    def __init__(self, context: Context, directory: Path) -> None:
        endpoints = Endpoints(directory)
        self.address = endpoints.frontend(0, 1).requests
        self.router = bind_router(context, self.address)
        self.publisher = bind_xpub(context, endpoints.view)
        self.inbox: queue.SimpleQueue[InputItem] = queue.SimpleQueue()
        self.num_bad = 0
        self.arrived: list[Arrived] = []
        self.identities: list[bytes] = []
        hello = EngineHello(PROTOCOL_VERSION, 0, 1, "model", 1024, 8, 100, 8, HASH_SEED)
        self.thread = InputThread(
            context, endpoints, hello, self.inbox, queue.SimpleQueue(), self.arrived.append,
            self.count_bad,
        )  # fmt: skip
        self.thread.start()
        wait_until(lambda: receive_all(self.publisher))

    def count_bad(self) -> None:
        self.num_bad += 1

    def publish(self) -> None:
        view = ClusterView(1, 1, False, [], [FrontendEntry(0, 1, True, self.address, "ipc:///x")])
        try_send(self.publisher, [VIEW_TOPIC, *Encoder().encode(view)])

    def greeted(self, times: int) -> bool:
        self.identities += [frames[0] for frames in receive_all(self.router)]
        return len(self.identities) >= times

    def join(self) -> bytes:
        """The identity under which the engine said hello."""
        self.publish()
        wait_until(lambda: self.greeted(1))
        return self.identities[-1]

    def items(self) -> list[InputItem]:
        items = []
        while not self.inbox.empty():
            items.append(self.inbox.get())
        return items

    def close(self) -> None:
        self.thread.stop()
        self.thread.join()
        self.router.close()
        self.publisher.close()


@pytest.fixture
def frontend(context: Context, tmp_path: Path) -> Iterator[HostileFrontend]:
    frontend = HostileFrontend(context, tmp_path)
    yield frontend
    frontend.close()


def test_an_engine_outlives_a_hostile_frontend_and_a_hostile_view(
    frontend: HostileFrontend,
) -> None:
    identity = frontend.join()
    hostile = list(malformed_messages(random.Random(3)))
    for frames in hostile:
        assert try_send(frontend.router, [identity, *frames])
        assert try_send(frontend.publisher, [VIEW_TOPIC, *frames])
    good = AbortRequests(0, 1, 7, ["r"])
    try_send(frontend.router, [identity, *Encoder().encode(good)])
    items: list[InputItem] = []

    def has_arrived() -> bool:
        items.extend(frontend.items())
        return good in items

    wait_until(has_arrived)
    assert frontend.thread.is_alive()
    assert frontend.num_bad >= len(hostile)
    assert items == [FrontendJoined(0, 1, "ipc:///x"), good]


def test_a_broken_connection_makes_the_engine_drop_its_requests_and_greet_anew(
    context: Context, frontend: HostileFrontend
) -> None:
    first = frontend.join()
    frontend.router.close(linger=0)
    frontend.router = wait_until(lambda: bind_router(context, frontend.address))
    wait_until(lambda: frontend.greeted(2))  # without any view: the coordinator may be away
    assert frontend.identities[-1] != first, "nobody can have taken the new name beforehand"
    items = frontend.items()
    assert items[0] == FrontendJoined(0, 1, "ipc:///x")
    assert FrontendGone(0, 1) in items
    assert items[-1] == FrontendJoined(0, 1, "ipc:///x")
