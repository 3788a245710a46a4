"""Hypercorn's HTTP connection, which ends when its client has gone, and not before it has read."""

import asyncio

from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.asyncio.tcp_server import MAX_RECV, TCPServer
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr

from frontend.connection_tasks import ConnectionTasks
from frontend.http_protocol import HttpProtocol

LINGER_SECONDS = 2.0
"""How long a client may go on sending a body that was refused; else it would not see the refusal."""


class HttpConnection(TCPServer):
    """One connection.

    Hypercorn's own keeps an idle connection, with its file descriptor, until the keep-alive timeout,
    even where the client has closed it: its timer is all that is waited for. And it closes with bytes
    unread, which makes the kernel take back an answer that the client has not read.
    """

    protocol: HttpProtocol
    _cutting: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Serve until either side closes."""
        try:
            async with ConnectionTasks(self.loop, self) as tasks:
                self._task_group: TaskGroup = tasks
                self.protocol = self._make_protocol(tasks)
                await self.protocol.initiate()
                await self.idle_task.restart(tasks, self._idle_timeout)
                await self._read_data()
        except OSError:
            pass
        finally:
            if self._cutting is not None:
                self._cutting.cancel()
            await self._close()
            # What is here knows this object: that would be left to the garbage collector, whose search
            # among all that streams hold keeps them waiting.
            vars(self).clear()

    def _make_protocol(self, tasks: TaskGroup) -> HttpProtocol:
        socket = self.writer.get_extra_info("socket")
        tls = self.writer.get_extra_info("ssl_object")
        return HttpProtocol(
            self.app,
            self.config,
            self.context,
            tasks,
            ConnectionState(self.state),
            tls is not None,
            parse_socket_addr(socket.family, socket.getpeername()),
            parse_socket_addr(socket.family, socket.getsockname()),
            self.protocol_send,
            tls.selected_alpn_protocol() if tls is not None else "http/1.1",
        )

    async def _read_data(self) -> None:
        """Read until the client closes; then nothing is left to wait for."""
        while not self.reader.at_eof():
            try:
                data = await self.reader.read(MAX_RECV)
            except OSError:
                break
            if self._cutting is None:
                await self.protocol.handle(RawData(data))
        await self.protocol.handle(Closed())
        await self.idle_task.stop()

    @property
    def takes_chunks(self) -> bool:
        """Whether an answer is under way whose body goes out in chunks."""
        return self.protocol.is_in_chunked_body

    def write_chunk_at_once(self, piece: bytes) -> bool:
        """Write a piece of that body, if nothing waits before it; False, and nothing done, if it cannot be."""
        transport = self.writer.transport
        if (
            not self.protocol.is_in_chunked_body
            or transport.is_closing()
            or transport.get_write_buffer_size()
        ):
            return False
        try:
            transport.write(_chunk(piece))
        except (ConnectionError, RuntimeError):  # who waits will find out
            return False
        return True

    async def write_chunk(self, piece: bytes) -> None:
        """Write a piece of that body, past hypercorn and h11, which would only frame it."""
        try:
            self.writer.write(_chunk(piece))
            await self.writer.drain()
        except (ConnectionError, RuntimeError):  # as `protocol_send` does
            await self.protocol.handle(Closed())

    async def protocol_send(self, event: Event) -> None:
        """Send what the protocol has; a connection that becomes idle after its client left ends."""
        if isinstance(event, Updated) and event.idle and self.reader.at_eof():
            event = Closed()
        if isinstance(event, Closed) and self._must_linger():
            self._linger()
        else:
            await super().protocol_send(event)

    def _must_linger(self) -> bool:
        return (
            self._cutting is None
            and self.protocol.has_unread_body
            and not self.reader.at_eof()
            and not self.context.terminated.is_set()
        )

    def _linger(self) -> None:
        """Say that nothing more is sent, and go on reading for a while."""
        if self.writer.can_write_eof():
            self.writer.write_eof()
        self._cutting = self.loop.call_later(LINGER_SECONDS, self.writer.transport.abort)


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)
