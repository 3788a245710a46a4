"""C23: an idle connection outlives what balancers keep theirs for, so that none writes into a closed one.

kserve#5446, llm-d#1564, litellm#19091, llm-d-benchmark#1675.
"""

import asyncio
from urllib.parse import urlsplit

import pytest

from cluster.config import FrontendConfig
from tests.support.launched_cluster import LaunchedCluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

BALANCERS_KEEP_SECONDS = 75
CARELESS_DEFAULT_SECONDS = 5.0
"""After which servers that do not think of balancers close."""


class Connection:
    """One connection that asks for `/health` now and then."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, url: str) -> "Connection":
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def ask(self) -> None:
        """A request and its answer; raises if the connection is closed."""
        self._writer.write(b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n")
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = next(
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        await self._reader.readexactly(length)

    async def is_closed_within(self, seconds: float) -> bool:
        """Whether the server closes it in this time."""
        try:
            async with asyncio.timeout(seconds):
                return await self._reader.read(1) == b""
        except TimeoutError:
            return False

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def check_open_for(url: str, seconds: float) -> None:
    connection = await Connection.open(url)
    await connection.ask()
    assert not await connection.is_closed_within(seconds)
    await connection.ask()
    await connection.close()


def test_the_default_is_no_shorter_than_balancers_keep_connections() -> None:
    assert FrontendConfig().keep_alive_timeout >= BALANCERS_KEEP_SECONDS


async def test_an_idle_connection_is_used_again(cluster: LaunchedCluster) -> None:
    await check_open_for(cluster.url, CARELESS_DEFAULT_SECONDS + 0.2)


@pytest.mark.drill
async def test_an_idle_connection_is_used_again_after_as_long_as_balancers_wait(
    cluster: LaunchedCluster,
) -> None:
    await check_open_for(cluster.url, 65.0)


async def test_the_time_is_a_setting(small_cluster: LaunchedCluster) -> None:
    connection = await Connection.open(small_cluster.url)
    for _ in range(3):
        await connection.ask()
        assert not await connection.is_closed_within(0.4)
    assert await connection.is_closed_within(5.0)
    await connection.close()
