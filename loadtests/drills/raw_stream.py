"""Streamed answers over raw sockets with small buffers, which their clients read or leave unread."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec

from loadtests.drills.drill import DrillError
from loadtests.drills.history import Exchange
from loadtests.drills.stage import Stage

SMALL_BUFFER_BYTES = 4096
ANSWER_TOKENS = 3000
OPEN_SECONDS = 60.0
RAW = "raw"


class RawStream:
    """A streamed request over a raw socket that its owner reads, or does not."""

    def __init__(self, url: str, **fields: Any) -> None:
        """`fields` go into the body beside those that make the answer long."""
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 80)
        body = msgspec.json.encode(
            {"prompt": "a long story", "max_tokens": ANSWER_TOKENS, "ignore_eos": True, "stream": True}
            | fields
        )  # fmt: skip
        head = (
            "POST /v1/completions HTTP/1.1\r\nHost: drill\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._request = head.encode() + body
        self._socket = socket.socket()

    async def open(self) -> None:
        """Send the request, and wait for the first bytes. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
        await loop.sock_connect(self._socket, self._address)
        await loop.sock_sendall(self._socket, self._request)
        head = await loop.sock_recv(self._socket, 1024)
        if b" 200 " not in head[:20]:
            raise DrillError(f"a stream was answered {head[:200]!r}")

    async def read_to_end(self) -> bytes:
        """Read whatever comes until the server closes, or the answer is over; its last bytes."""
        loop = asyncio.get_running_loop()
        last = b""
        while piece := await loop.sock_recv(self._socket, 65_536):
            last = last[-100:] + piece
            if b"[DONE]" in last:
                break
        return last

    async def is_cut(self) -> bool:
        """Read what is there; whether the server has closed the connection before the end."""
        try:
            async with asyncio.timeout(5):
                return b"[DONE]" not in await self.read_to_end()
        except TimeoutError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Leave."""
        self._socket.close()


@asynccontextmanager
async def open_streams(stage: Stage, number: int, **fields: Any) -> AsyncIterator[list[RawStream]]:
    """So many streams that have begun; those that are left are closed in the end.

    The history has each as a request of the kind `raw`, which is not whole.
    """
    streams = [RawStream(stage.cluster.url, **fields) for _ in range(number)]
    sender = stage.sender()
    exchanges = [sender.new_exchange(RAW, "/v1/completions", {}) for _ in range(number)]
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            await asyncio.gather(*(stream.open() for stream in streams))
        yield streams
    finally:
        for stream in streams:
            stream.close()
        for exchange in exchanges:
            exchange.failure, exchange.error = "broken", "its client stopped reading, or left"
            exchange.ended_at = time.monotonic()


@asynccontextmanager
async def reading(streams: list[RawStream]) -> AsyncIterator[None]:
    """Reads all of them while the block runs."""
    readers = [asyncio.create_task(stream.read_to_end()) for stream in streams]
    try:
        yield
    finally:
        for reader in readers:
            reader.cancel()
        with contextlib.suppress(OSError):
            await asyncio.gather(*readers, return_exceptions=True)


def is_raw(exchange: Exchange) -> bool:
    """Whether its client never meant to read the answer."""
    return exchange.kind == RAW
