"""What becomes of clients that do not read what they asked for: they are cut off.

The kernel does it, by connection: it knows best whether anything is read, and costs nothing. An HTTP/2
client may read its connection but not a stream, and that only the stream itself can see.
"""

import asyncio
import errno
import socket
from functools import cache

from prometheus_client import Counter
from starlette.requests import ClientDisconnect
from starlette.types import Message, Scope, Send

from cluster.telemetry.metrics import counter

TCP_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", 25)  # Python 3.12 has it
UNSENT_BYTES = 64 * 1024
"""What the kernel takes for a client that does not read; as much again waits in the process."""


def limit_slow_readers(listen_fd: int, seconds: float) -> None:
    """Let connections that this socket accepts end once their clients have taken nothing for so long.

    Only while something is to be sent: a stream in which nothing happens may last.
    """
    with socket.fromfd(listen_fd, socket.AF_INET, socket.SOCK_STREAM) as listener:
        milliseconds = max(1, int(seconds * 1000))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        listener.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES)


def is_slow_reader(error: BaseException) -> bool:
    """Whether a connection ended with this error because it was cut off; counts it then."""
    is_cut = isinstance(error, OSError) and error.errno == errno.ETIMEDOUT
    if is_cut:
        cut_counter().inc()
    return is_cut


@cache
def cut_counter() -> Counter:
    """How many were cut off: made when first needed, after the process has joined the metrics."""
    return counter("slow_readers_cut")


def send_while_read(send: Send, scope: Scope, seconds: float) -> Send:
    """A `send` that raises ClientDisconnect if the client is gone, or reads nothing for so long."""

    async def send_in_time(message: Message) -> None:
        try:
            async with asyncio.timeout(seconds):
                await send(message)
        except TimeoutError as error:
            if error.errno is None:  # our own limit; the kernel's is counted with the connection
                cut_counter().inc()
            raise ClientDisconnect from error
        except OSError as error:
            raise ClientDisconnect from error

    async def send_or_leave(message: Message) -> None:
        try:
            await send(message)
        except OSError as error:
            raise ClientDisconnect from error

    return send_in_time if scope.get("http_version", "").startswith("2") else send_or_leave
