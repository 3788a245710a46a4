"""C15: every choice has one reason for its end, the right one, and a stream ends with `[DONE]`.

ollama#4357, OmniRoute#6777, Rapid-MLX#859, vllm#36944.
"""

import json
from typing import Any

import httpx
import pytest

from tests.support.frontend_app import ANSWER, encode, engine_that_says, http_client
from tests.support.ways import WAYS, Way, name_of

STREAMS = [way for way in WAYS if way.is_streamed]
ALL = len(encode(ANSWER)) + 1
ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "end of text": ({"max_tokens": ALL + 1}, "stop"),
    "end of text as the last token": ({"max_tokens": ALL}, "stop"),
    "one token before": ({"max_tokens": ALL - 1}, "length"),
    "stop string": ({"stop": "today", "max_tokens": 64}, "stop"),
    "stop token": ({"stop_token_ids": [encode(ANSWER)[3]], "max_tokens": 64}, "stop"),
    "one token": ({"max_tokens": 1}, "length"),
}


@pytest.mark.parametrize("end", ENDS)
async def test_the_reason_is_that_of_the_end(way: Way, client: httpx.AsyncClient, end: str) -> None:
    fields, reason = ENDS[end]
    reply = await way.ask(client, **fields, n=2)
    assert [choice["finish_reason"] for choice in reply.choices] == [reason, reason]


async def test_a_full_context_is_a_matter_of_length(way: Way) -> None:
    async with http_client(engine_that_says("word " * 200)) as client:
        prompt_tokens = ((await way.ask(client)).usage or {})["prompt_tokens"]
        reply = await way.ask(client, max_tokens=128 - prompt_tokens)
        assert reply.finish_reason == "length"
        assert reply.usage is not None
        assert reply.usage["total_tokens"] == 128


@pytest.mark.parametrize("way", STREAMS, ids=name_of)
@pytest.mark.parametrize("end", ENDS)
async def test_a_stream_has_null_until_the_one_last_chunk_of_each_choice(
    way: Way, client: httpx.AsyncClient, end: str
) -> None:
    fields, reason = ENDS[end]
    body = (await way.send(client, **fields, n=2)).content
    assert body.endswith(b"}\n\ndata: [DONE]\n\n")
    assert body.count(b"[DONE]") == 1
    lines = body.decode().removesuffix("data: [DONE]\n\n").rstrip("\n").split("\n\n")
    choices = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines]
    for index in range(2):
        reasons = [choice["finish_reason"] for choice in choices if choice["index"] == index]
        assert reasons == [None] * (len(reasons) - 1) + [reason]


async def test_an_empty_answer_has_its_reason_too(way: Way) -> None:
    async with http_client(engine_that_says("")) as client:
        reply = await way.ask(client)
        assert (reply.text, reply.finish_reason) == ("", "stop")
        assert reply.usage is not None
        assert reply.usage["completion_tokens"] == 1
