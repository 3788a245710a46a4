"""C18: log probabilities come in their endpoint's shape, and streamed they are the same list.

vllm#4795, vllm#3179, vllm#3707, llama-cpp-python#197, lmdeploy#2802, litellm#4898.
"""

from typing import Any

import httpx
import pytest

from tests.support.frontend_app import ANSWER, encode, engine_that_says, http_client
from tests.support.scripted_engine import ScriptedEngine
from tests.support.ways import CHAT_PATH, COMPLETIONS_PATH, Way, check_refused

COLUMNS = {"tokens", "token_logprobs", "top_logprobs", "text_offset"}
FIELDS: list[tuple[str, dict[str, Any]]] = [
    (CHAT_PATH, {"logprobs": True}),
    (CHAT_PATH, {"logprobs": True, "top_logprobs": 0}),
    (CHAT_PATH, {"logprobs": True, "top_logprobs": 3}),
    (CHAT_PATH, {"logprobs": True, "top_logprobs": 20}),
    (COMPLETIONS_PATH, {"logprobs": 0}),
    (COMPLETIONS_PATH, {"logprobs": 2}),
    (COMPLETIONS_PATH, {"logprobs": 20}),
    (COMPLETIONS_PATH, {"logprobs": 2, "echo": True}),
]


@pytest.mark.parametrize(("path", "fields"), FIELDS)
async def test_a_stream_of_a_real_model_has_the_same_list(
    model_client: httpx.AsyncClient, path: str, fields: dict[str, Any]
) -> None:
    settings: dict[str, Any] = {"max_tokens": 16, "temperature": 1.0, "seed": 3, "n": 2}
    whole = await Way(path, False).ask(model_client, "Horses 😀", **settings, **fields)
    streamed = await Way(path, True).ask(model_client, "Horses 😀", **settings, **fields)
    assert streamed == whole
    assert all(choice["logprobs"] for choice in whole.choices)


@pytest.mark.parametrize("tokens_per_batch", [1, 4, 1000])
@pytest.mark.parametrize(("path", "fields"), FIELDS)
async def test_also_where_text_is_held_back(
    path: str, fields: dict[str, Any], tokens_per_batch: int
) -> None:
    async with http_client(engine_that_says(ANSWER, tokens_per_batch=tokens_per_batch)) as client:
        for stop in (["todayx", "! How"], "😀x", "day?"):
            settings: dict[str, Any] = {"max_tokens": 40, "stop": stop, **fields}
            whole = await Way(path, False).ask(client, **settings)
            streamed = await Way(path, True).ask(client, **settings)
            assert streamed == whole


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("num_best", [None, 0, 3])
async def test_a_chat_has_a_row_a_token(
    client: httpx.AsyncClient, streamed: bool, num_best: int | None
) -> None:
    reply = await Way(CHAT_PATH, streamed).ask(client, logprobs=True, top_logprobs=num_best)
    rows = reply.choices[0]["logprobs"]["content"]
    assert len(rows) == len(encode(ANSWER)) + 1
    for row in rows:
        assert set(row) == {"token", "logprob", "bytes", "top_logprobs"}
        assert len(row["top_logprobs"]) == (num_best or 0)
        assert all(set(top) == {"token", "logprob", "bytes"} for top in row["top_logprobs"])
    text = b"".join(bytes(row["bytes"]) for row in rows).decode()
    assert text == ANSWER + "<|im_end|>"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("num_best", [0, 2])
async def test_a_completion_has_columns(
    client: httpx.AsyncClient, streamed: bool, num_best: int
) -> None:
    reply = await Way(COMPLETIONS_PATH, streamed).ask(client, logprobs=num_best)
    columns = reply.choices[0]["logprobs"]
    assert set(columns) == COLUMNS
    assert {len(column) for column in columns.values()} == {16}
    assert all(len(top) <= num_best + 1 for top in columns["top_logprobs"])
    assert columns["text_offset"] == sorted(columns["text_offset"])


@pytest.mark.parametrize("way", [Way(CHAT_PATH, False), Way(CHAT_PATH, True)])
async def test_unasked_there_are_none(way: Way, client: httpx.AsyncClient) -> None:
    for fields in ({}, {"logprobs": None}, {"logprobs": False}, {"top_logprobs": None}):
        assert "logprobs" not in (await way.ask(client, **fields)).choices[0]


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        (CHAT_PATH, {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        (CHAT_PATH, {"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        (CHAT_PATH, {"top_logprobs": 3}, "top_logprobs"),
        (CHAT_PATH, {"logprobs": 3}, "logprobs"),
        (COMPLETIONS_PATH, {"logprobs": 21}, "logprobs"),
        (COMPLETIONS_PATH, {"logprobs": -1}, "logprobs"),
        (COMPLETIONS_PATH, {"logprobs": True}, "logprobs"),
    ],
)
async def test_outside_the_limits_they_are_refused(
    engine: ScriptedEngine,
    client: httpx.AsyncClient,
    path: str,
    fields: dict[str, Any],
    param: str,
) -> None:
    for streamed in (False, True):
        check_refused(await Way(path, streamed).send(client, **fields), param)
    assert not engine.submitted
