"""A frontend's server around a small application: how it begins and how it ends."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
from starlette.types import Receive, Scope, Send

from cluster.config import ClusterConfig
from cluster.wire.sampling import SamplingParams
from cluster.wire.sockets import new_context
from frontend.balancer import Balancer
from frontend.client import DPLBClient
from frontend.metrics import FrontendMetrics
from frontend.request import GenerationRequest
from frontend.server import LAST_BYTES_SECONDS, FrontendServer
from tests.support.lifespan import answer_lifespan
from tests.support.waiting import wait_until_async


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await answer_lifespan(receive, send)
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while scope["path"] == "/endless":
        await send({"type": "http.response.body", "body": bytes(1 << 16), "more_body": True})
    await send({"type": "http.response.body", "body": b"ok"})


class RunningServer:
    """The server on a port of its own, and a client of its engines that has none."""

    def __init__(self, run_directory: Path) -> None:
        self._context = new_context()
        config = ClusterConfig(run_directory=str(run_directory))
        balancer = Balancer("random", Random(0))
        self.client = DPLBClient(config, 0, 1, self._context, balancer, FrontendMetrics("m", 0))
        listener = socket.create_server(("127.0.0.1", 0))
        self._port = listener.getsockname()[1]
        server = FrontendServer(config, self.client, application, listener.detach())
        self.running = asyncio.ensure_future(server.run())
        self._connections: list[asyncio.StreamWriter] = []

    async def get(self, path: str) -> None:
        """Open a connection, ask for this path and read until the answer has begun."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1024)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        self._connections.append(writer)

    async def close(self) -> None:
        """End it, if nobody has."""
        if not self.running.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await self.running
        for writer in self._connections:
            writer.transport.abort()
        self._context.term()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    server = RunningServer(tmp_path)
    await server.get("/")
    yield server
    await server.close()


async def test_idle_connections_do_not_delay_the_end(server: RunningServer) -> None:
    for _ in range(3):
        await server.get("/")
    os.kill(os.getpid(), signal.SIGTERM)
    began_at = time.monotonic()
    assert await server.running is True
    assert time.monotonic() - began_at < LAST_BYTES_SECONDS / 2


async def test_a_client_that_does_not_read_delays_the_end_by_no_more_than_last_bytes_get(
    server: RunningServer,
) -> None:
    await server.get("/endless")
    os.kill(os.getpid(), signal.SIGTERM)
    began_at = time.monotonic()
    assert await server.running is True
    assert time.monotonic() - began_at < LAST_BYTES_SECONDS + 1.0


async def test_requests_in_flight_may_end_first(server: RunningServer) -> None:
    request = GenerationRequest("r", [1], [], SamplingParams(), time.monotonic())
    stream = server.client.submit(request)
    os.kill(os.getpid(), signal.SIGTERM)
    await wait_until_async(lambda: server.client.is_draining)
    assert not server.running.done()
    stream.end()
    assert await server.running is True


async def test_hypercorn_gives_no_advice_of_its_own(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    await server.close()
    assert "CTRL" not in caplog.text
