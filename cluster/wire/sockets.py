"""ZeroMQ sockets with this project's options, in one place.

Every queue is finite and no send waits: `try_send` says whether the frames were taken. What a full
queue means is the caller's to decide (skip the engine, drop the frontend, drop the report).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import zmq

from cluster.errors import InsecureEndpoint, WireError
from cluster.wire.codec import MAX_FRAME_BYTES, Frame

MESSAGES_IN_QUEUE = 10_000
REPORTS_IN_QUEUE = 1_000
LAST_WORDS_LINGER_MS = 1_000
MESSAGES_A_WAKEUP = 128
"""A reader returns to the event loop after so many, so that nothing else starves."""

Socket = zmq.Socket[bytes]
Context = zmq.Context[Socket]


def new_context() -> Context:
    """The one ZeroMQ context of a process."""
    context: Context = zmq.Context()
    context.setsockopt(zmq.MAX_SOCKETS, 4096)
    return context


def _socket(context: Context, kind: int, queue: int, linger_ms: int = 0) -> Socket:
    socket = context.socket(kind)
    socket.set_hwm(queue)
    # A peer that sends more is cut off before memory is taken for it.
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
    socket.setsockopt(zmq.LINGER, linger_ms)
    socket.setsockopt(zmq.RECONNECT_IVL, 20)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 500)
    return socket


def bind(socket: Socket, address: str) -> str:
    """Bind to `address` and return the real one (port 0 takes a free port).

    Raises InsecureEndpoint for a TCP address beyond loopback: such links are not authenticated.
    """
    if address.startswith("tcp://") and not address.startswith(("tcp://127.", "tcp://[::1]")):
        raise InsecureEndpoint(f"{address} would listen beyond this machine without keys")
    socket.bind(address)
    return socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()  # type: ignore[union-attr]


def _connect(socket: Socket, address: str) -> None:
    try:
        socket.connect(address)
    except zmq.ZMQError as error:
        socket.close()
        raise WireError(f"{address[:100]!r} is no address: {error.strerror}") from error


def bind_router(context: Context, address: str) -> Socket:
    """A ROUTER that answers EHOSTUNREACH for a peer that is not there, instead of silence."""
    socket = _socket(context, zmq.ROUTER, MESSAGES_IN_QUEUE)
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    # An engine that connects again under its name is believed, not shut out by its old connection.
    socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
    bind(socket, address)
    return socket


def bind_pull(context: Context, address: str) -> Socket:
    """A PULL: outputs into a frontend, reports into the coordinator."""
    socket = _socket(context, zmq.PULL, MESSAGES_IN_QUEUE)
    bind(socket, address)
    return socket


def bind_xpub(context: Context, address: str) -> Socket:
    """The coordinator's XPUB; verbose, so that it sees every subscription and can answer it."""
    socket = _socket(context, zmq.XPUB, REPORTS_IN_QUEUE)
    socket.setsockopt(zmq.XPUB_VERBOSE, 1)
    bind(socket, address)
    return socket


def connect_dealer(context: Context, address: str, identity: bytes) -> Socket:
    """A DEALER under a name that the ROUTER can send to. Raises WireError for what is no address."""
    socket = _socket(context, zmq.DEALER, MESSAGES_IN_QUEUE)
    socket.setsockopt(zmq.IDENTITY, identity)
    _connect(socket, address)
    return socket


def connect_outputs(context: Context, address: str) -> Socket:
    """An engine's PUSH to one frontend; lingers, so that last words arrive. Raises WireError."""
    socket = _socket(context, zmq.PUSH, MESSAGES_IN_QUEUE, LAST_WORDS_LINGER_MS)
    _connect(socket, address)
    return socket


def connect_reports(context: Context, address: str) -> Socket:
    """A PUSH to the coordinator. Queues nothing while it is away: old reports are worth nothing."""
    socket = _socket(context, zmq.PUSH, REPORTS_IN_QUEUE)
    socket.setsockopt(zmq.IMMEDIATE, 1)
    _connect(socket, address)
    return socket


def connect_sub(context: Context, address: str, topic: bytes) -> Socket:
    """A SUB to the coordinator's views."""
    socket = _socket(context, zmq.SUB, REPORTS_IN_QUEUE)
    socket.setsockopt(zmq.SUBSCRIBE, topic)
    _connect(socket, address)
    return socket


def watch_disconnects(socket: Socket) -> Socket:
    """A socket on which something arrives whenever a connection of `socket` breaks.

    Messages may have been lost then, both ways. Ends with `close_watched`.
    """
    return socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)


def close_watched(socket: Socket, monitor: Socket, linger_ms: int) -> None:
    """Close a socket and its monitor."""
    socket.disable_monitor()
    monitor.close(linger=0)
    socket.close(linger=linger_ms)


def try_send(socket: Socket, frames: Sequence[Frame]) -> bool:
    """Send without waiting; False if the queue is full or the peer is not there."""
    try:
        socket.send_multipart(frames, flags=zmq.NOBLOCK, copy=True)
    except zmq.Again:
        return False
    except zmq.ZMQError as error:
        if error.errno == zmq.EHOSTUNREACH:
            return False
        raise
    return True


def receive_all(socket: Socket, limit: int = MESSAGES_A_WAKEUP) -> list[list[bytes]]:
    """The multipart messages that have arrived, at most `limit`, without waiting."""
    messages: list[list[bytes]] = []
    while len(messages) < limit:
        try:
            messages.append(socket.recv_multipart(flags=zmq.NOBLOCK))
        except zmq.Again:
            break
    return messages


class LoopReader:
    """Calls `on_message(frames)` on an event loop for each message of a socket.

    ZeroMQ's file descriptor is edge-triggered and any use of the socket may swallow the edge, so
    whoever sends on the same socket calls `poke()` afterwards.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        socket: Socket,
        on_message: Callable[[list[bytes]], None],
    ) -> None:
        self._loop = loop
        self._socket = socket
        self._on_message = on_message
        self._handle: asyncio.Handle | None = None
        self._closed = False
        self._descriptor = cast("int", socket.getsockopt(zmq.FD))
        loop.add_reader(self._descriptor, self._drain)
        self.poke()

    def poke(self) -> None:
        """Look for messages at the next turn of the loop."""
        if self._handle is None and not self._closed:
            self._handle = self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._closed:
            return
        messages = receive_all(self._socket)
        if len(messages) == MESSAGES_A_WAKEUP:
            self.poke()
        for frames in messages:
            try:
                self._on_message(frames)
            except Exception as error:  # noqa: BLE001 - one message costs no other its turn
                self._loop.call_exception_handler(
                    {"message": "a message could not be handled", "exception": error}
                )

    def close(self) -> None:
        """Stop reading. The socket stays open; it is the caller's."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._descriptor)
            if self._handle is not None:
                self._handle.cancel()
