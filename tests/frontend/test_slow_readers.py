"""Clients that stop reading, over real sockets with small buffers, and what others notice of them."""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from cluster.config import ClusterConfig, EngineConfig, FrontendConfig
from cluster.wire.sockets import new_context
from frontend.app import build_app
from frontend.balancer import Balancer
from frontend.client import DPLBClient
from frontend.metrics import FrontendMetrics
from frontend.model_info import ModelInfo
from frontend.server import FrontendServer
from frontend.slow_readers import cut_counter, send_while_read
from tests.support.scripted_engine import ScriptedEngine
from tests.support.tiny_tokenizer import VOCAB_SIZE, tiny_tokenizer
from tests.support.waiting import wait_until_async

TIMEOUT_SECONDS = 0.6
NUM_TOKENS = 20_000
"""Some megabytes of events: more than all buffers on the way."""
MODEL = ModelInfo(name="tiny", max_model_len=100_000, vocab_size=VOCAB_SIZE, eos_token_ids=(2,))


class Served:
    """The whole frontend on a port, over an engine that answers at once and at length."""

    def __init__(self, run_directory: Path) -> None:
        self._context = new_context()
        self.engine = ScriptedEngine(lambda _: [40 + i % 20 for i in range(NUM_TOKENS)])
        config = ClusterConfig(
            engine=EngineConfig(block_size=4),
            frontend=FrontendConfig(slow_reader_timeout=TIMEOUT_SECONDS),
            run_directory=str(run_directory),
        )
        balancer = Balancer("random", Random(0))
        client = DPLBClient(config, 0, 1, self._context, balancer, FrontendMetrics("m", 0))
        app = build_app(config, MODEL, tiny_tokenizer(), self.engine)
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = listener.getsockname()
        server = FrontendServer(config, client, app, listener.detach())
        self._running = asyncio.ensure_future(server.run())

    async def ask(self, receive_buffer_bytes: int | None = 4096, **fields: Any) -> socket.socket:
        """A connection on which an answer has been asked for."""
        connection = socket.socket()
        if receive_buffer_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, self.address)
        body = json.dumps({"prompt": "Hi", "ignore_eos": True} | fields).encode()
        head = (
            "POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        await loop.sock_sendall(connection, head.encode() + body)
        return connection

    def num_connections(self) -> int:
        """Connections that are open at the server's end."""
        connections = psutil.Process().net_connections("tcp")
        return sum(
            bool(c.raddr) and c.laddr == self.address and c.status == "ESTABLISHED"
            for c in connections
        )

    async def close(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await self._running
        await self.engine.close()
        self._context.term()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    served = Served(tmp_path)
    yield served
    await served.close()


def num_cut() -> float:
    return sum(s.value for m in cut_counter().collect() for s in m.samples
               if s.name.endswith("_total"))  # fmt: skip


async def read_to_end(connection: socket.socket, needle: bytes) -> list[float]:
    """When each piece came, until the answer's end."""
    loop, times, tail = asyncio.get_running_loop(), [], b""
    while needle not in tail:
        piece = await loop.sock_recv(connection, 1 << 16)
        assert piece, "the connection was closed"
        times.append(time.monotonic())
        tail = (tail + piece)[-1000:]
    return times


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_client_that_reads_nothing_is_cut_off_and_its_request_ends(
    served: Served, streamed: bool
) -> None:
    before = num_cut()
    if streamed:
        served.engine.tokens_before_hold = NUM_TOKENS - 10
    connection = await served.ask(
        stream=streamed, max_tokens=NUM_TOKENS, return_token_ids=True, logprobs=5
    )
    began_at = time.monotonic()
    await wait_until_async(lambda: num_cut() == before + 1, 15)
    assert time.monotonic() - began_at > TIMEOUT_SECONDS
    await wait_until_async(lambda: served.num_connections() == 0, 5)
    assert len(served.engine.aborted) == streamed  # the other one had ended
    connection.close()


async def test_a_client_that_reads_slowly_but_reads_gets_all(served: Served) -> None:
    before = num_cut()
    connection = await served.ask(stream=True, max_tokens=3000, receive_buffer_bytes=1 << 16)
    loop, received = asyncio.get_running_loop(), b""
    while b"[DONE]" not in received[-100:]:
        piece = await loop.sock_recv(connection, 1 << 15)
        received += piece
        await asyncio.sleep(TIMEOUT_SECONDS / 20)
    assert num_cut() == before
    connection.close()


async def test_a_stream_in_which_nothing_comes_lasts(served: Served) -> None:
    served.engine.tokens_before_hold = 5
    connection = await served.ask(stream=True, max_tokens=20)
    await served.engine.wait_until_holding()
    began_at = time.monotonic()
    await wait_until_async(lambda: time.monotonic() - began_at > 3 * TIMEOUT_SECONDS, 5)
    served.engine.release()
    await read_to_end(connection, b"[DONE]")
    connection.close()


async def test_many_that_do_not_read_cost_little_memory_and_others_nothing_but_their_share(
    served: Served,
) -> None:
    before = num_cut()
    process = psutil.Process()
    memory = process.memory_info().rss
    served.engine.tokens_before_hold = NUM_TOKENS - 10
    silent = [await served.ask(stream=True, max_tokens=NUM_TOKENS) for _ in range(20)]
    reader = await served.ask(stream=True, max_tokens=500, receive_buffer_bytes=None)
    await read_to_end(reader, b"[DONE]")
    await wait_until_async(lambda: num_cut() == before + 20, 20)
    assert process.memory_info().rss - memory < 20 * 2 * 1024 * 1024
    await wait_until_async(lambda: len(served.engine.aborted) == 20, 5)
    for connection in (*silent, reader):
        connection.close()


async def test_an_http2_stream_that_is_not_read_is_given_up() -> None:
    async def never(_: Message) -> None:
        await asyncio.Event().wait()

    before = num_cut()
    send = send_while_read(never, {"http_version": "2"}, 0.01)
    with pytest.raises(ClientDisconnect):
        await send({"type": "http.response.body"})
    assert num_cut() == before + 1
