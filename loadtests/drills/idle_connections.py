"""Keep-alive connections that have asked once and are silent since."""

import asyncio
from urllib.parse import urlsplit

_REQUEST = b"GET /health HTTP/1.1\r\nHost: drill\r\n\r\n"
ANSWER_SECONDS = 20.0
AT_ONCE = 50


class IdleConnections:
    """So many open connections to a server; each is asked in the beginning and in the end."""

    def __init__(self, url: str, number: int) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 80)
        self._number = number
        self._open: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def __aenter__(self) -> "IdleConnections":
        await asyncio.gather(*(self._connect() for _ in range(self._number)))
        return self

    async def __aexit__(self, *error: object) -> None:
        for _, writer in self._open:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _connect(self) -> None:
        async with self._slots:
            host, port = self._address
            reader, writer = await asyncio.open_connection(host, port)
            self._open.append((reader, writer))
            await _is_answered(reader, writer)

    async def count_alive(self) -> int:
        """How many of them answer once more."""

        async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
            async with self._slots:
                return await _is_answered(reader, writer)

        return sum(await asyncio.gather(*(one(*connection) for connection in self._open)))


async def _is_answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            writer.write(_REQUEST)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length:")[2].split(b"\r\n")[0]
            await reader.readexactly(int(length))
            return head.startswith(b"http/1.1 200")
    except (OSError, EOFError, ValueError, TimeoutError):
        return False
