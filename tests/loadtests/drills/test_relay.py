"""The relay between two plain ZeroMQ sockets; both belong to this process, so to one treatment."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cluster.wire.sockets import (
    Context,
    Socket,
    bind_pull,
    connect_outputs,
    receive_all,
    try_send,
    watch_disconnects,
)
from loadtests.drills.relay import CUT, HOLD, PASS, Relay, Treatment
from tests.support.waiting import wait_until_async

PID = os.getpid()


class Link:
    """A PULL, the relay in front of it, and a PUSH that has come through."""

    def __init__(self, context: Context, directory: Path) -> None:
        self.context, self.directory = context, directory
        self.pull = bind_pull(context, f"ipc://{directory}/reports")
        self.relay = Relay(directory)
        self.received: list[bytes] = []

    async def connect(self) -> Socket:
        self.push = connect_outputs(self.context, f"ipc://{self.directory}/reports")
        self.monitor = watch_disconnects(self.push)
        return self.push

    def has(self, content: bytes) -> bool:
        self.received += [frames[0] for frames in receive_all(self.pull)]
        return content in self.received


@pytest.fixture
async def link(context: Context, tmp_path: Path) -> AsyncIterator[Link]:
    link = Link(context, tmp_path)
    await link.relay.interpose("reports")
    await link.connect()
    yield link
    link.push.disable_monitor()
    link.monitor.close()
    await link.relay.close()


async def test_what_is_sent_arrives_whole_and_in_order(link: Link) -> None:
    contents = [b"%d" % number * 20_000 for number in range(200)]
    for content in contents:
        assert try_send(link.push, [content])
    await wait_until_async(lambda: link.has(contents[-1]))
    assert link.received == contents
    assert link.relay.num_connections(PID) == 1


async def test_a_held_connection_stays_open_and_passes_nothing_until_it_is_let_go(
    link: Link,
) -> None:
    try_send(link.push, [b"before"])
    await wait_until_async(lambda: link.has(b"before"))
    link.relay.treat(PID, HOLD)
    try_send(link.push, [b"held"])
    with pytest.raises(AssertionError):
        await wait_until_async(lambda: link.has(b"held"), 0.3)
    assert not receive_all(link.monitor)
    link.relay.treat(PID, PASS)
    await wait_until_async(lambda: link.has(b"held"))


async def test_a_cut_connection_breaks_and_comes_back_when_it_may(link: Link) -> None:
    try_send(link.push, [b"before"])
    await wait_until_async(lambda: link.has(b"before"))
    link.relay.treat(PID, CUT)
    await wait_until_async(lambda: receive_all(link.monitor))
    assert link.relay.num_connections(PID) == 0
    link.relay.treat(PID, PASS)
    await wait_until_async(lambda: try_send(link.push, [b"after"]) and link.has(b"after"))


async def test_a_slow_link_is_late_and_narrow(link: Link) -> None:
    try_send(link.push, [b"before"])
    await wait_until_async(lambda: link.has(b"before"))
    link.relay.treat(PID, Treatment(delay_seconds=0.2, bytes_per_second=1_000_000))
    began_at = time.monotonic()
    for number in range(4):
        try_send(link.push, [b"%d" % number + bytes(100_000)])
    await wait_until_async(lambda: link.has(b"3" + bytes(100_000)))
    assert time.monotonic() - began_at > 0.2 + 0.3


async def test_after_the_relay_everybody_connects_directly(link: Link) -> None:
    try_send(link.push, [b"before"])
    await wait_until_async(lambda: link.has(b"before"))
    await link.relay.close()
    assert [path.name for path in link.directory.iterdir()] == ["reports"]
    await wait_until_async(lambda: try_send(link.push, [b"after"]) and link.has(b"after"))


async def test_another_process_is_treated_on_its_own(link: Link) -> None:
    link.relay.treat(PID + 1, CUT)
    try_send(link.push, [b"not cut"])
    await wait_until_async(lambda: link.has(b"not cut"))


async def test_a_socket_that_is_not_there_is_an_error(context: Context, tmp_path: Path) -> None:
    async with Relay(tmp_path) as relay:
        with pytest.raises(FileNotFoundError):
            await relay.interpose("nothing")
    assert asyncio.all_tasks() == {asyncio.current_task()}
