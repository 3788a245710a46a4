"""Bodies in pieces: the short way and the usual one, as clients of all versions of HTTP see them."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import h11
import pytest
from hypercorn.config import Config
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from frontend.http_server import HttpServer
from frontend.streamed_body import CHUNKS_EXTENSION, StreamedBody
from tests.support.lifespan import answer_lifespan
from tests.support.served_frontend import RawConnection, raw_connection
from tests.support.waiting import wait_until_async

PIECES = [b"one", b"two\r\n0\r\n\r\n", bytes(range(256)) * 300, b"end"]


class PieceApp:
    """Answers with the pieces, and remembers when its connection took chunks."""

    def __init__(self, headers: list[tuple[bytes, bytes]]) -> None:
        self.headers = headers
        self.took_chunks: list[bool] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if scope["type"] == "lifespan":
            await answer_lifespan(receive, send)
            return
        while (await receive()).get("more_body"):
            pass
        body = StreamedBody(scope, send)
        self._note(scope)
        await body.begin(self.headers)
        self._note(scope)
        for piece in PIECES:
            await body.write(piece)
        await body.end()
        self._note(scope)

    def _note(self, scope: Scope) -> None:
        writer: Any = scope["extensions"].get(CHUNKS_EXTENSION)
        self.took_chunks.append(writer is not None and writer.takes_chunks)


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = HttpServer(app, Config(), listener.detach())
    await server.start()
    try:
        yield port
    finally:
        await server.close(last_bytes_seconds=1)


async def answer_on(connection: RawConnection, request: bytes) -> tuple[h11.Response, bytes]:
    """What a strict client makes of one answer."""
    client = h11.Connection(h11.CLIENT)
    method = request.split()[0].decode()
    client.send(h11.Request(method=method, target="/", headers=[("host", "t")]))
    client.send(h11.EndOfMessage())
    connection.writer.write(request)
    head, body = None, b""
    async with asyncio.timeout(10):
        while True:
            match event := client.next_event():
                case h11.Response():
                    head = event
                case h11.Data():
                    body += event.data
                case h11.EndOfMessage():
                    assert head is not None
                    return head, body
                case _:
                    client.receive_data(await connection.reader.read(1 << 16))


async def test_pieces_go_the_short_way_while_the_body_is_open_and_arrive_as_they_are() -> None:
    app = PieceApp([])
    async with served(app) as port, raw_connection(port) as connection:
        for _ in range(2):  # the connection can be used again
            head, body = await answer_on(connection, b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
            assert (b"transfer-encoding", b"chunked") in head.headers
            assert body == b"".join(PIECES)
    assert app.took_chunks == [False, True, False] * 2


@pytest.mark.parametrize(
    ("request_bytes", "headers"),
    [
        (b"GET / HTTP/1.0\r\nHost: t\r\n\r\n", []),
        (
            b"GET / HTTP/1.1\r\nHost: t\r\n\r\n",
            [(b"Content-Length", str(len(b"".join(PIECES))).encode())],
        ),
    ],
)
async def test_where_the_body_has_no_chunks_pieces_go_the_usual_way(
    request_bytes: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    app = PieceApp(headers)
    async with served(app) as port, raw_connection(port) as connection:
        _, body = await answer_on(connection, request_bytes)
    assert body == b"".join(PIECES)
    assert app.took_chunks == [False, False, False]


async def test_a_head_alone_stays_alone() -> None:
    app = PieceApp([])
    async with served(app) as port, raw_connection(port) as connection:
        connection.writer.write(b"HEAD / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
        answer = await connection.answer()
    assert answer.endswith(b"\r\n\r\n")
    assert answer.count(b"\r\n\r\n") == 1


async def test_a_piece_is_written_at_once_only_where_that_needs_no_waiting() -> None:
    written: list[bytes] = []
    refused, ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await answer_lifespan(receive, send)
            return
        body = StreamedBody(scope, send)
        assert not body.write_at_once(b"before the head")
        await body.begin([])
        while body.write_at_once(piece := b"%07d" % len(written) * 1000):
            written.append(piece)
        refused.set()
        await body.write(b"waited for")
        await wait_until_async(lambda: body.write_at_once(b"read by now"))
        await body.end()
        assert not body.write_at_once(b"behind the end")
        ended.set()

    async with served(app) as port, raw_connection(port) as connection:
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        connection.writer.write(b"GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
        await refused.wait()
        connection.writer.transport.resume_reading()  # type: ignore[attr-defined]
        answer = h11.Connection(h11.CLIENT)
        answer.send(h11.Request(method="GET", target="/", headers=[("host", "t")]))
        answer.send(h11.EndOfMessage())
        answer.receive_data(await connection.answer())
        await ended.wait()
    answer.receive_data(b"")
    body = b""
    while not isinstance(event := answer.next_event(), h11.EndOfMessage):
        body += event.data if isinstance(event, h11.Data) else b""
    assert written
    assert body == b"".join(written) + b"waited for" + b"read by now"


async def test_writing_to_a_client_that_has_left_ends() -> None:
    ended = asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await answer_lifespan(receive, send)
            return
        body = StreamedBody(scope, send)
        await body.begin([])
        leaving = asyncio.ensure_future(_has_left(receive))
        while not leaving.done():
            await body.write(b"x" * 1000)
            await asyncio.sleep(0)
        ended.set()

    async with served(endless) as port:
        async with raw_connection(port) as connection:
            connection.writer.write(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
            await connection.reader.readexactly(50)
        await wait_until_async(ended.is_set, 10)


async def _has_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def test_a_connection_that_was_cut_is_a_client_that_has_left() -> None:
    class Cut:
        takes_chunks = True

        async def write_chunk(self, piece: bytes) -> None:
            raise TimeoutError(110, "the kernel's limit")

    async def send(message: Message) -> None:
        pass

    body = StreamedBody({"extensions": {CHUNKS_EXTENSION: Cut()}}, send)
    with pytest.raises(ClientDisconnect):
        await body.write(b"x")
