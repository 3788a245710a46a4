"""Connections that clients close: the server lets go of them at once."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator

import pytest
from hypercorn.config import Config
from starlette.types import Receive, Scope, Send

from frontend.http_connection import HttpConnection
from frontend.http_server import HttpServer
from tests.support.lifespan import answer_lifespan
from tests.support.waiting import wait_until_async

REQUEST = b"GET /quick HTTP/1.1\r\nHost: test\r\n\r\n"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await answer_lifespan(receive, send)
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
async def served() -> AsyncIterator[tuple[HttpServer, int]]:
    """A server whose keep-alive timeout no test lives to see, and its port."""
    settings = Config()
    settings.keep_alive_timeout = 1000
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = HttpServer(application, settings, listener.detach())
    await server.start()
    yield server, port
    await server.close(last_bytes_seconds=1)


@pytest.mark.parametrize("request_bytes", [b"", REQUEST, REQUEST[:10]])
@pytest.mark.parametrize("is_reset", [True, False])
async def test_a_connection_ends_when_its_client_closes_it(
    served: tuple[HttpServer, int], request_bytes: bytes, is_reset: bool
) -> None:
    server, port = served
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_bytes)
    if request_bytes == REQUEST:
        await reader.readuntil(b"ok")
    await wait_until_async(lambda: len(server._connections) == 1)
    if is_reset:
        writer.transport.abort()
    else:
        writer.close()
    await wait_until_async(lambda: not server._connections, 5)


def connections_in_memory() -> list[HttpConnection]:
    # Not isinstance: some objects elsewhere warn when they are asked for their class.
    return [one for one in gc.get_objects() if type(one) is HttpConnection]


async def test_a_connection_that_has_ended_is_no_work_for_the_garbage_collector(
    served: tuple[HttpServer, int],
) -> None:
    server, port = served
    gc.collect()
    gc.disable()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        await reader.readuntil(b"ok")
        writer.close()
        await wait_until_async(lambda: not server._connections, 5)
        # Its task has a last turn after that.
        await wait_until_async(lambda: not connections_in_memory(), 5)
    finally:
        gc.enable()
