"""The listening socket, which several frontends share."""

import asyncio
import socket

import pytest

from frontend import http_server
from tests.support.frontend_app import engine_that_says
from tests.support.served_frontend import served_frontend
from tests.support.waiting import wait_until_async

NUM_CLIENTS = 10


async def test_a_burst_of_connections_is_left_to_others_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "SECONDS_BETWEEN_TURNS", 1000.0)
    async with served_frontend(engine_that_says("hello")) as served:
        # Not a coroutine: the server has no turn before all are there.
        clients = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(NUM_CLIENTS)]
        await wait_until_async(lambda: served.num_connections > 0)
        assert served.num_connections == http_server.ACCEPTS_PER_TURN
        with served.server._listener.dup() as another_frontend:
            for _ in range(NUM_CLIENTS - http_server.ACCEPTS_PER_TURN):
                another_frontend.accept()[0].close()
        for client in clients:
            client.close()


async def test_who_has_looked_away_looks_again() -> None:
    async with served_frontend(engine_that_says("hello")) as served:
        clients = [
            await asyncio.open_connection("127.0.0.1", served.port) for _ in range(NUM_CLIENTS)
        ]
        await wait_until_async(lambda: served.num_connections == NUM_CLIENTS)
        for _, writer in clients:
            writer.transport.abort()
