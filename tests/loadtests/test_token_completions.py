import json

from loadtests.client import StreamingClient
from loadtests.http_client import HttpClient
from loadtests.record import RequestRecord
from loadtests.workload import token_completion
from tests.loadtests.scripted_server import ScriptedServer, chunk, usage

THREE_TOKENS = [chunk([7]), chunk([8, 9], finish="length"), usage(3), "[DONE]"]


async def answer(server: ScriptedServer, answer_tokens: int = 3) -> RequestRecord:
    async with server.running():
        client = StreamingClient(HttpClient(server.url), timeout_seconds=30.0)
        return await client.complete(token_completion("tiny", [1, 2], answer_tokens), due_at=0.0)


async def test_an_answer_comes_with_its_tokens() -> None:
    server = ScriptedServer(THREE_TOKENS)
    got = await answer(server)
    assert got.token_ids == [7, 8, 9]
    assert got.error_kind is None
    assert got.output_tokens == 3
    assert server.bodies[0]["prompt"] == [1, 2]
    assert server.bodies[0]["max_tokens"] == 3


async def test_an_answer_of_another_length_is_an_error() -> None:
    got = await answer(ScriptedServer(THREE_TOKENS), answer_tokens=4)
    assert got.error_kind == "wrong length"


async def test_a_refusal_is_an_error_of_its_status_and_code() -> None:
    body = json.dumps({"error": {"message": "full", "code": "overloaded"}})
    got = await answer(ScriptedServer([body], status=429))
    assert got.error_kind == "HTTP 429 overloaded"


async def test_what_is_no_chunk_is_an_error() -> None:
    got = await answer(ScriptedServer(["{", "[DONE]"]))
    assert got.error_kind == "event that is no chunk"


async def test_a_connection_that_breaks_is_an_error() -> None:
    got = await answer(ScriptedServer(THREE_TOKENS[:1], breaks_off=True))
    assert got.error_kind == "broken connection"
    assert got.token_ids == [7]
    assert got.ended_at > 0
