"""The frontend's application over a scripted engine, on a port of its own, by the real HTTP server."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from cluster.config import FrontendConfig
from frontend.http_server import HttpServer
from frontend.http_settings import hypercorn_settings
from frontend.model_info import ModelInfo
from tests.support.frontend_app import MODEL, make_app
from tests.support.scripted_engine import ScriptedEngine


class Served(NamedTuple):
    """Where the application is, and its server."""

    url: str
    port: int
    server: HttpServer

    @property
    def num_connections(self) -> int:
        """Connections that the server has open."""
        return len(self.server._connections)


@asynccontextmanager
async def served_frontend(
    engine: ScriptedEngine, model: ModelInfo = MODEL, **frontend_settings: Any
) -> AsyncIterator[Served]:
    """Serve while the block runs; ends the engine's answers at the end."""
    settings = FrontendConfig(**frontend_settings)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = HttpServer(
        make_app(engine, model, **frontend_settings),
        hypercorn_settings(settings),
        listener.detach(),
        settings.max_connections,
    )
    await server.start()
    scheme = "https" if settings.is_over_tls else "http"
    try:
        yield Served(f"{scheme}://127.0.0.1:{port}", port, server)
    finally:
        await server.close(last_bytes_seconds=1)
        await engine.close()


class RawConnection(NamedTuple):
    """A connection on which a test writes bytes of its own choice."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self, seconds: float = 10) -> bytes:
        """All that comes until the server closes."""
        async with asyncio.timeout(seconds):
            return await self.reader.read()


@asynccontextmanager
async def raw_connection(port: int) -> AsyncIterator[RawConnection]:
    """A plain connection, cut at the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.transport.abort()
