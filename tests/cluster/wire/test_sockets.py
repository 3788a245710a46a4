import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq

from cluster.errors import InsecureEndpoint
from cluster.wire.codec import MAX_FRAME_BYTES
from cluster.wire.endpoints import Endpoints
from cluster.wire.sockets import (
    MESSAGES_A_WAKEUP,
    Context,
    LoopReader,
    Socket,
    bind,
    bind_pull,
    bind_router,
    bind_xpub,
    connect_dealer,
    connect_outputs,
    connect_reports,
    connect_sub,
    receive_all,
    try_send,
)
from tests.support.waiting import wait_until

Opened = Callable[[Socket], Socket]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Closes, after the test, each socket that was passed through it."""
    with ExitStack() as stack:
        yield stack.enter_context


def test_a_router_says_when_nobody_is_there(
    context: Context, opened: Opened, tmp_path: Path
) -> None:
    router = opened(bind_router(context, f"ipc://{tmp_path}/r"))
    assert try_send(router, [b"e0.1", b"x"]) is False
    dealer = opened(connect_dealer(context, f"ipc://{tmp_path}/r", b"e0.1"))
    dealer.send(b"hello")
    wait_until(lambda: receive_all(router) == [[b"e0.1", b"hello"]], 5)
    assert try_send(router, [b"e0.1", b"x"]) is True
    dealer.close()
    wait_until(lambda: not try_send(router, [b"e0.1", b"x"]), 5)


def test_a_full_queue_is_an_answer_and_not_a_wait(
    context: Context, opened: Opened, tmp_path: Path
) -> None:
    push = opened(connect_outputs(context, f"ipc://{tmp_path}/nobody"))
    sent = 0
    while try_send(push, [b"x"]):
        sent += 1
    assert 0 < sent < 100_000
    push.close(linger=0)


def test_reports_are_not_kept_for_a_coordinator_that_is_away(
    context: Context, opened: Opened, tmp_path: Path
) -> None:
    push = opened(connect_reports(context, f"ipc://{tmp_path}/reports"))
    assert try_send(push, [b"old news"]) is False
    pull = opened(bind_pull(context, f"ipc://{tmp_path}/reports"))
    wait_until(lambda: try_send(push, [b"news"]), 5)
    wait_until(lambda: receive_all(pull) == [[b"news"]], 5)


def test_a_frame_beyond_all_measure_is_refused_before_it_is_read(
    context: Context, opened: Opened, tmp_path: Path
) -> None:
    pull = opened(bind_pull(context, f"ipc://{tmp_path}/p"))
    push = opened(connect_outputs(context, f"ipc://{tmp_path}/p"))
    push.send(b"before")
    push.send(bytes(MAX_FRAME_BYTES + 1))
    wait_until(lambda: receive_all(pull) == [[b"before"]], 5)
    wait_until(lambda: try_send(push, [b"after"]) and receive_all(pull) == [[b"after"]], 5)


def test_a_subscriber_is_seen_by_the_publisher(
    context: Context, opened: Opened, tmp_path: Path
) -> None:
    publisher = opened(bind_xpub(context, f"ipc://{tmp_path}/view"))
    for _ in range(2):  # the second subscription of the same topic is seen as well
        opened(connect_sub(context, f"ipc://{tmp_path}/view", b"view"))
        wait_until(lambda: receive_all(publisher) == [[b"\x01view"]], 5)


@pytest.mark.parametrize("address", ["tcp://0.0.0.0:0", "tcp://*:0", "tcp://192.0.2.1:5555"])
def test_an_open_tcp_address_is_refused(context: Context, opened: Opened, address: str) -> None:
    socket = opened(context.socket(zmq.PULL))
    with pytest.raises(InsecureEndpoint):
        bind(socket, address)


def test_a_free_port_is_reported(context: Context, opened: Opened) -> None:
    address = bind(opened(context.socket(zmq.PULL)), "tcp://127.0.0.1:0")
    assert int(address.rpartition(":")[2]) > 0


async def test_a_reader_delivers_every_message_however_many_come_at_once(
    context: Context, opened: Opened, tmp_path: Path
) -> None:
    pull = opened(bind_pull(context, f"ipc://{tmp_path}/p"))
    push = opened(connect_outputs(context, f"ipc://{tmp_path}/p"))
    count = 5 * MESSAGES_A_WAKEUP + 3
    received: list[bytes] = []
    all_here = asyncio.Event()

    def on_message(frames: list[bytes]) -> None:
        received.append(frames[0])
        if len(received) == count:
            all_here.set()

    reader = LoopReader(asyncio.get_running_loop(), pull, on_message)
    for number in range(count):
        assert try_send(push, [b"%d" % number])
    async with asyncio.timeout(10):
        await all_here.wait()
    assert received == [b"%d" % number for number in range(count)]
    reader.close()


async def test_a_reader_still_reads_after_the_socket_was_used_for_sending(
    context: Context, opened: Opened, tmp_path: Path
) -> None:
    router = opened(bind_router(context, f"ipc://{tmp_path}/r"))
    dealer = opened(connect_dealer(context, f"ipc://{tmp_path}/r", b"e0.1"))
    replies = asyncio.Queue[bytes]()
    reader = LoopReader(asyncio.get_running_loop(), router, lambda f: replies.put_nowait(f[1]))
    async with asyncio.timeout(10):
        for number in range(50):
            dealer.send(b"%d" % number)
            try_send(router, [b"e0.1", b"swallows the edge"])
            reader.poke()
            assert await replies.get() == b"%d" % number
    reader.close()


async def test_a_message_that_cannot_be_handled_costs_no_other(
    context: Context, opened: Opened, tmp_path: Path
) -> None:
    pull = opened(bind_pull(context, f"ipc://{tmp_path}/p"))
    push = opened(connect_outputs(context, f"ipc://{tmp_path}/p"))
    loop, received, errors = asyncio.get_running_loop(), asyncio.Queue[int](), []
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
    reader = LoopReader(loop, pull, lambda frames: received.put_nowait(int(frames[0])))
    for content in (b"1", b"no number", b"2"):
        assert try_send(push, [content])
    async with asyncio.timeout(10):
        assert [await received.get(), await received.get()] == [1, 2]
    assert [type(error) for error in errors] == [ValueError]
    reader.close()


def test_a_frontend_that_restarts_listens_elsewhere() -> None:
    endpoints = Endpoints("/run/x")
    assert set(endpoints.frontend(0, 1)).isdisjoint(endpoints.frontend(0, 2))
