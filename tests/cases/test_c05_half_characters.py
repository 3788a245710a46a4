r"""C05: half a character, `\ud83d` alone, is legal JSON and no Unicode: it costs nobody anything.

OpenViking#4238, openai/tiktoken#82, UniqToken#10, aider#3693.
"""

import json
import logging
from typing import Any

import httpx
import pytest

from tests.support.ways import CHAT_PATH, Way

HALF = "a \ud83d b"
JSON = {"content-type": "application/json"}


def as_bytes(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()  # writes what cannot be encoded as an escape


async def send(client: httpx.AsyncClient, way: Way, **fields: Any) -> httpx.Response:
    content = as_bytes(way.body(**fields))
    return await client.post(way.path, content=content, headers=JSON)


async def test_in_a_prompt_it_becomes_the_replacement_character(
    way: Way, client: httpx.AsyncClient
) -> None:
    assert b"\\ud83d" in as_bytes(way.body(HALF))
    for text in (HALF, "\udc00", "\0", "a \0 b", "\ud83d\ude00 whole"):
        assert (await send(client, way, text=text)).status_code == 200
    field = {"prompt": HALF + "\0"}
    tokens = (await client.post("/tokenize", content=as_bytes(field), headers=JSON)).json()
    answer = await client.post("/detokenize", json={"tokens": tokens["tokens"][1:]})
    assert answer.json()["prompt"] == "a \ufffd b\0"


FIELDS: list[tuple[dict[str, Any], int]] = [
    ({"model": HALF}, 404),
    ({"model": "\0"}, 404),
    ({"stop": HALF}, 200),
    ({"stop": ["\ud83d", "\0"]}, 200),
    ({"user": HALF}, 200),
    ({"bad_words": [HALF]}, 200),
    ({"logit_bias": {HALF: 1}}, 400),
    ({"cache_salt": HALF}, 200),
    ({"cache_salt": "\0"}, 400),
    ({"guided_regex": "[" + HALF}, 400),
    ({"guided_choice": [HALF]}, 200),
    ({"response_format": {"type": HALF}}, 400),
    ({HALF: HALF}, 200),
    ({"temperature": HALF}, 400),
]


async def test_anywhere_else_it_is_taken_or_refused_and_errors_can_quote_it(
    way: Way, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    for fields, status in FIELDS:
        with caplog.at_level(logging.DEBUG):
            answer = await send(client, way, **fields)
        assert answer.status_code == status, (fields, answer.text)
        answer.text.encode()
        caplog.text.encode()
        if status != 200:
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert (await send(client, way)).status_code == 200


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "message",
    [
        {"role": HALF, "content": "x"},
        {"role": "user", "content": "x", "name": HALF},
        {"role": "user", "content": [{"type": "text", "text": HALF}]},
        {"role": "assistant", "tool_calls": [{"id": HALF, "function": {"name": HALF}}]},
        {
            "role": "assistant",
            "tool_calls": [{"function": {"name": "f", "arguments": '{"a": "\\ud83d"}'}}],
        },
        {"role": "tool", "tool_call_id": HALF, "content": "\0"},
        {"role": "wizard", "content": HALF},
    ],
)
async def test_in_any_part_of_a_message_it_is_no_server_error(
    client: httpx.AsyncClient, message: Any, streamed: bool
) -> None:
    body = as_bytes({"messages": [message], "stream": streamed})
    answer = await client.post(CHAT_PATH, content=body, headers=JSON)
    assert answer.status_code in (200, 400), answer.text
