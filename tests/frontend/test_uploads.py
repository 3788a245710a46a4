"""Bodies on their way: in pieces, too slow, too large, refused before they have come."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.frontend_app import ANSWER, engine_that_says
from tests.support.served_frontend import raw_connection, served_frontend
from tests.support.waiting import wait_until_async

BODY = json.dumps({"prompt": "Hi", "max_tokens": 4}).encode()
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
MEGABYTES = b" " * (20 * 1024 * 1024)


def head(length: int, *more: bytes) -> bytes:
    return HEAD + b"".join([*more, b"Content-Length: %d\r\n\r\n" % length])


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for first in range(0, len(data), size):
        yield data[first : first + size]


def error_of(answer: bytes) -> tuple[int, str | None]:
    """Status and error code of a whole answer that is an error object."""
    top, _, body = answer.partition(b"\r\n\r\n")
    return int(top.split()[1]), json.loads(body)["error"]["code"]


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_chunked_body_is_taken_whatever_its_chunks_are(size: int) -> None:
    headers = {"content-type": "application/json"}
    async with (
        served_frontend(engine_that_says(ANSWER)) as served,
        httpx.AsyncClient(base_url=served.url, trust_env=False) as client,
    ):
        answer = await client.post("/v1/completions", content=pieces(BODY, size), headers=headers)
        assert answer.status_code == 200
        assert answer.json()["choices"][0]["finish_reason"] == "length"


async def test_a_body_that_comes_slowly_but_in_time_is_taken() -> None:
    async with (
        served_frontend(engine_that_says(ANSWER), body_timeout=10.0) as served,
        raw_connection(served.port) as connection,
    ):
        connection.writer.write(head(len(BODY), b"Connection: close\r\n"))
        for byte in BODY:
            connection.writer.write(bytes([byte]))
            await connection.writer.drain()
            await asyncio.sleep(0)
        assert (await connection.answer()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sent", [b"", BODY[:-1]])
async def test_a_body_that_does_not_come_in_time_is_408_and_the_connection_ends(
    sent: bytes,
) -> None:
    engine = engine_that_says(ANSWER)
    async with (
        served_frontend(engine, body_timeout=0.2) as served,
        raw_connection(served.port) as connection,
    ):
        connection.writer.write(head(len(BODY)) + sent)
        answer = await connection.answer()
        assert error_of(answer) == (408, "request_timeout")
        assert b"0.2 seconds" in answer
        assert b"connection: close" in answer.lower()
        assert not engine.submitted


async def test_a_head_that_does_not_come_ends_with_the_time_of_idle_connections() -> None:
    async with (
        served_frontend(engine_that_says(ANSWER), keep_alive_timeout=0.2) as served,
        raw_connection(served.port) as connection,
    ):
        connection.writer.write(HEAD)
        assert await connection.answer() == b""


async def test_a_body_that_is_told_to_be_too_large_is_refused_at_once() -> None:
    async with (
        served_frontend(engine_that_says(ANSWER), max_body_bytes=2048) as served,
        raw_connection(served.port) as connection,
    ):
        connection.writer.write(head(2049))
        answer = await connection.answer()
        assert error_of(answer) == (413, "request_too_large")
        assert b"2048" in answer


@pytest.mark.parametrize("is_told", [True, False])
async def test_a_client_that_sends_on_still_reads_why_its_body_is_refused(is_told: bool) -> None:
    headers = {"content-type": "application/json"}
    async with (
        served_frontend(engine_that_says(ANSWER), max_body_bytes=2048) as served,
        httpx.AsyncClient(base_url=served.url, trust_env=False) as client,
    ):
        content = MEGABYTES if is_told else pieces(MEGABYTES, 1 << 16)
        answer = await client.post("/v1/completions", content=content, headers=headers)
        assert answer.status_code == 413
        await wait_until_async(lambda: served.num_connections == 0, 5)


@pytest.mark.parametrize(
    ("path", "status"), [("/v1/completions", 401), ("/nowhere", 401), ("/health", 405)]
)
async def test_an_answer_that_needs_no_body_does_not_wait_for_it(path: str, status: int) -> None:
    async with (
        served_frontend(engine_that_says(ANSWER), api_key=["secret"]) as served,
        httpx.AsyncClient(base_url=served.url, trust_env=False) as client,
    ):
        answer = await client.post(path, content=MEGABYTES)
        assert answer.status_code == status
        await wait_until_async(lambda: served.num_connections == 0, 5)


async def test_an_answer_that_comes_before_the_body_says_that_the_connection_ends() -> None:
    async with (
        served_frontend(engine_that_says(ANSWER), api_key=["secret"]) as served,
        raw_connection(served.port) as connection,
    ):
        connection.writer.write(head(len(BODY)))
        answer = await connection.answer()
        assert error_of(answer) == (401, "invalid_api_key")
        assert b"connection: close" in answer.lower()


async def test_a_client_that_expects_to_be_asked_for_its_body_is_asked() -> None:
    async with (
        served_frontend(engine_that_says(ANSWER)) as served,
        raw_connection(served.port) as connection,
    ):
        more = (b"Expect: 100-continue\r\n", b"Connection: close\r\n")
        connection.writer.write(head(len(BODY), *more))
        assert (await connection.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        connection.writer.write(BODY)
        assert (await connection.answer()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(("num_bytes", "status"), [(1500, b"200"), (2500, b"431")])
async def test_a_head_is_taken_up_to_its_limit(num_bytes: int, status: bytes) -> None:
    async with (
        served_frontend(engine_that_says(ANSWER), max_header_bytes=2048) as served,
        raw_connection(served.port) as connection,
    ):
        flood = b"".join(b"X-%d: y\r\n" % number for number in range(num_bytes // 8))
        connection.writer.write(
            b"GET /health HTTP/1.1\r\nHost: t\r\nConnection: close\r\n" + flood + b"\r\n"
        )
        answer = await connection.answer()
        assert answer.split()[1] == status
        if status != b"200":
            assert error_of(answer) == (431, "request_header_fields_too_large")
            assert b"2048" in answer


async def test_what_is_no_http_is_told_so() -> None:
    async with (
        served_frontend(engine_that_says(ANSWER)) as served,
        raw_connection(served.port) as connection,
    ):
        connection.writer.write(b"Hello?\r\n\r\n")
        assert error_of(await connection.answer()) == (400, None)


async def test_connections_over_the_limit_wait_for_one_to_close() -> None:
    request = b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n"
    async with (
        served_frontend(engine_that_says(ANSWER), max_connections=2) as served,
        raw_connection(served.port) as first,
        raw_connection(served.port) as second,
    ):
        for connection in (first, second):
            connection.writer.write(request)
            await connection.reader.readuntil(b"\r\n\r\n")
        async with raw_connection(served.port) as third:
            third.writer.write(request)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await third.reader.read(1)
            assert served.num_connections == 2
            first.writer.close()
            assert (await third.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("timeout_seconds", [0.3, 5.0])
async def test_an_idle_connection_lasts_as_long_as_is_set(timeout_seconds: float) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n"
    async with (
        served_frontend(engine_that_says(ANSWER), keep_alive_timeout=timeout_seconds) as served,
        raw_connection(served.port) as connection,
    ):
        connection.writer.write(request)
        await connection.reader.readuntil(b"\r\n\r\n")
        idle = asyncio.ensure_future(wait_until_async(lambda: served.num_connections == 0, 1))
        await asyncio.wait([idle])
        assert (idle.exception() is None) == (timeout_seconds < 1)
