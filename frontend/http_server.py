"""Hypercorn's HTTP on connections that are accepted here, so that one can stop accepting and go on."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

from hypercorn.asyncio.lifespan import Lifespan
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config as HypercornConfig
from hypercorn.utils import wrap_app
from starlette.types import Message, Receive, Scope, Send

from cluster.telemetry.logs import RateLimited
from frontend.http_connection import HttpConnection
from frontend.slow_readers import is_slow_reader

Application = Callable[[Scope, Receive, Send], Awaitable[None]]

BACKLOG = 4096
ACCEPTS_PER_TURN = 2
"""Further connections are left for the next turn, or for another frontend on the same socket."""
SECONDS_BETWEEN_TURNS = 0.001
"""What the others get to come first: one that wakes up early would take a whole burst."""
SECONDS_BETWEEN_TRIES = 0.5
"""While no connection can be accepted, because there are no file descriptors left."""
ABORT_SECONDS = 0.5
"""What connections get to notice that they were cut."""
HANDSHAKE_SECONDS = 10.0
"""What a client gets to come to terms about TLS."""
FAREWELL_SECONDS = 2.0
"""What it gets to say that it has seen the end."""


class HttpServer:
    """Serves an application on a listening socket that other processes may share.

    Hypercorn's own loop closes idle connections at the moment at which it stops accepting, also those
    whose first request is on its way. This one can stop accepting and serve what is connected.
    """

    def __init__(
        self,
        app: Application,
        settings: HypercornConfig,
        listen_fd: int,
        max_connections: int | None = None,
    ) -> None:
        self._app = app
        self._settings = settings
        self._tls = settings.create_ssl_context()
        self._max_connections = max_connections
        self._listener = socket.socket(fileno=listen_fd)
        self._listener.setblocking(False)
        self._context = WorkerContext(None)
        self._lifespan_state: dict[str, Any] = {}
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter | None] = {}
        self._num_requests = 0
        self._requested_at = 0.0
        self._has_changed = asyncio.Event()
        self._is_accepting = False
        self._is_retiring = False
        self._logger = logging.getLogger("frontend.http")
        self._complaints = RateLimited(self._logger)

    async def start(self) -> None:
        """Start the application, and accept connections from now on."""
        self._loop = asyncio.get_running_loop()
        self._wrapped = wrap_app(
            cast("Any", self._count), self._settings.wsgi_max_body_size, "asgi"
        )
        self._lifespan = Lifespan(self._wrapped, self._settings, self._loop, self._lifespan_state)
        self._lifespan_task = asyncio.create_task(self._lifespan.handle_lifespan())
        await self._lifespan.wait_for_startup()
        if self._lifespan_task.done():
            self._lifespan_task.result()
        self._listener.listen(BACKLOG)
        self._is_accepting = True
        self._watch_listener()

    def retire(self) -> None:
        """Accept nothing more; each connection gets its next answer, and is closed after that."""
        self._stop_accepting()
        self._is_retiring = True
        self._requested_at = self._loop.time()

    async def wait_until_unused(self, idle_seconds: float) -> None:
        """Return once no connection is left, or none has been used for so long."""
        while self._connections:
            self._has_changed.clear()
            wait_seconds = self._requested_at + idle_seconds - self._loop.time()
            try:
                async with asyncio.timeout(None if self._num_requests else max(0.0, wait_seconds)):
                    await self._has_changed.wait()
            except TimeoutError:
                return

    async def close(self, last_bytes_seconds: float) -> None:
        """Close all connections: idle ones at once, others when their answer is out, or in so long."""
        self._stop_accepting()
        self._listener.close()
        await self._context.terminated.set()
        await self._wait_for_connections(last_bytes_seconds)
        # What its client does not read is never flushed.
        for writer in self._connections.values():
            if writer is not None:
                writer.transport.abort()
        await self._wait_for_connections(ABORT_SECONDS)
        for connection in self._connections:
            connection.cancel()
        await self._wait_for_connections(ABORT_SECONDS)
        await self._lifespan.wait_for_shutdown()
        self._lifespan_task.cancel()
        await asyncio.gather(self._lifespan_task, return_exceptions=True)

    async def _wait_for_connections(self, seconds: float) -> None:
        if self._connections:
            await asyncio.wait(list(self._connections), timeout=seconds)

    # ── connections ──

    def _watch_listener(self) -> None:
        if self._is_accepting and not self._is_full:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _stop_accepting(self) -> None:
        if self._is_accepting:
            self._is_accepting = False
            self._loop.remove_reader(self._listener.fileno())

    @property
    def _is_full(self) -> bool:
        return self._max_connections is not None and (
            len(self._connections) >= self._max_connections
        )

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if self._is_full:  # the rest waits for `_forget`, or for another frontend
                self._loop.remove_reader(self._listener.fileno())
                return
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._complaints.warning("accept", "cannot accept connections: %s", error)
                self._look_away(SECONDS_BETWEEN_TRIES)
                return
            accepted.setblocking(False)
            task = asyncio.create_task(self._serve(accepted))
            self._connections[task] = None
            task.add_done_callback(self._forget)
        self._look_away(SECONDS_BETWEEN_TURNS)

    def _look_away(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(seconds, self._watch_listener)

    async def _serve(self, accepted: socket.socket) -> None:
        if accepted.family in (socket.AF_INET, socket.AF_INET6):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = asyncio.StreamReader(loop=self._loop)
        # uvloop returns another protocol than this one where there is TLS.
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        is_over_tls = self._tls is not None
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if is_over_tls else None,
                ssl_shutdown_timeout=FAREWELL_SECONDS if is_over_tls else None,
            )
        except OSError as error:  # a client that speaks no TLS, or shows no certificate
            self._logger.debug("no connection: %s", error)
            accepted.close()
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        task = asyncio.current_task()
        assert task is not None, "this is a task"
        self._connections[task] = writer
        await HttpConnection(
            self._wrapped,
            self._loop,
            self._settings,
            self._context,
            cast("Any", self._lifespan_state),
            reader,
            writer,
        )

    def _forget(self, connection: asyncio.Task[None]) -> None:
        was_full = self._is_full
        del self._connections[connection]
        self._has_changed.set()
        if was_full:
            self._watch_listener()
        error = connection.exception() if not connection.cancelled() else None
        if error is not None and not is_slow_reader(error):
            self._complaints.warning("connection", "a connection failed: %r", error)

    # ── requests ──

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_last(message: Message) -> None:
            if self._is_retiring and message["type"] == "http.response.start":
                headers = [*message.get("headers", []), (b"connection", b"close")]
                message = {**message, "headers": headers}
            await send(message)

        self._num_requests += 1
        try:
            # HTTP/2 has no such header.
            is_old = scope["http_version"].startswith("1")
            await self._app(scope, receive, send_last if is_old else send)
        finally:
            self._num_requests -= 1
            self._requested_at = self._loop.time()
            self._has_changed.set()
