"""HTTP/2 without TLS, as balancers speak it: many streams of one connection, and none harms another."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from frontend.http_settings import MAX_HTTP2_STREAMS
from tests.support.frontend_app import ANSWER, engine_that_says, events_of
from tests.support.http2_client import Http2Client, http2_client
from tests.support.scripted_engine import ScriptedEngine
from tests.support.served_frontend import Served, served_frontend

PATH = "/v1/completions"
BODY: dict[str, Any] = {"prompt": "Hi", "max_tokens": 5}
STREAMED = json.dumps({**BODY, "stream": True}).encode()


@pytest.fixture
def engine() -> ScriptedEngine:
    return engine_that_says(ANSWER)


@pytest.fixture
async def served(engine: ScriptedEngine) -> AsyncIterator[Served]:
    async with served_frontend(engine, max_body_bytes=2048, max_header_bytes=2048) as served:
        yield served


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Http2Client]:
    async with http2_client(served.port) as client:
        yield client


async def test_a_whole_answer_and_a_stream_say_the_same(served: Served) -> None:
    async with httpx.AsyncClient(
        base_url=served.url, http1=False, http2=True, trust_env=False
    ) as client:
        whole = await client.post(PATH, json=BODY)
        assert (whole.status_code, whole.http_version) == (200, "HTTP/2")
        streamed = await client.post(PATH, json={**BODY, "stream": True})
    text = "".join(event["choices"][0]["text"] for event in events_of(streamed))
    assert text == whole.json()["choices"][0]["text"]


async def test_as_many_streams_as_are_allowed_run_on_one_connection(
    engine: ScriptedEngine, client: Http2Client
) -> None:
    engine.tokens_before_hold = 2
    numbers = [client.send("POST", PATH, STREAMED) for _ in range(MAX_HTTP2_STREAMS)]
    await client.read_until(lambda: all(client.streams[number].body for number in numbers))
    engine.release()
    await client.read_until(lambda: all(client.streams[number].has_ended for number in numbers))
    assert all(stream.body.endswith(b"data: [DONE]\n\n") for stream in client.streams.values())


async def test_a_connection_has_no_limit_of_requests(client: Http2Client) -> None:
    # Hypercorn's own is 1000, and then breaks what is under way.
    for _ in range(11):
        numbers = [client.send("GET", "/version") for _ in range(100)]
        await client.read_until(lambda: all(client.streams[n].has_ended for n in numbers))  # noqa: B023
    assert {stream.status for stream in client.streams.values()} == {200}
    assert not client.is_ended_by_server


async def test_a_stream_that_its_client_gives_up_is_aborted_and_the_others_go_on(
    engine: ScriptedEngine, client: Http2Client
) -> None:
    engine.tokens_before_hold = 2
    left, other = client.send("POST", PATH, STREAMED), client.send("POST", PATH, STREAMED)
    await client.read_until(lambda: all(client.streams[n].body for n in (left, other)))
    client.reset(left)
    await engine.wait_until_aborted()
    assert engine.aborted == [engine.submitted[0].request_id]
    engine.release()
    await client.read_until(lambda: client.streams[other].has_ended)
    assert client.streams[other].body.endswith(b"data: [DONE]\n\n")


async def test_a_request_that_is_given_up_before_its_answer_begins_is_aborted(
    engine: ScriptedEngine, client: Http2Client
) -> None:
    engine.tokens_before_hold = 0
    number = client.send("POST", PATH, json.dumps(BODY).encode())
    await engine.wait_until_holding()
    client.reset(number)
    await engine.wait_until_aborted()


async def test_a_body_that_is_refused_early_ends_its_stream_alone(
    engine: ScriptedEngine, client: Http2Client
) -> None:
    engine.tokens_before_hold = 2
    other = client.send("POST", PATH, STREAMED)
    await client.read_until(lambda: bool(client.streams[other].body))
    for _ in range(3):
        refused = client.send("POST", PATH, b" " * 20_000, is_whole=False)
        stream = client.streams[refused]
        await client.read_until(lambda: stream.has_ended)  # noqa: B023
        assert (stream.status, json.loads(stream.body)["error"]["code"]) == (
            413,
            "request_too_large",
        )
        if not stream.is_reset:
            client.send_more(refused, b" " * 100)
            await client.read_until(lambda: stream.is_reset)  # noqa: B023
    engine.release()
    await client.read_until(lambda: client.streams[other].has_ended)
    assert client.streams[other].body.endswith(b"data: [DONE]\n\n")


async def test_a_head_over_the_limit_ends_the_connection(client: Http2Client) -> None:
    client.send("GET", "/version?" + "x" * 3000)
    with pytest.raises(ConnectionError):
        await client.read_until(lambda: bool(client.streams[1].status))
