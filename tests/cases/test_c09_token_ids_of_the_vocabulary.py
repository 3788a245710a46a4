"""C09: a token id outside the vocabulary, at either end, reaches no engine.

vllm#16529, vllm#5963, vllm#54195, sglang#28088.
"""

from typing import Any

import httpx
import pytest

from tests.support.scripted_engine import ScriptedEngine
from tests.support.tiny_tokenizer import VOCAB_SIZE
from tests.support.ways import COMPLETIONS_PATH, Way

FIRST, LAST = 0, VOCAB_SIZE - 1
NO_BIAS: list[Any] = [
    {"abc": 5}, {"": 5}, {"1.5": 5}, {"5": "x"}, {"5": None}, {"5": 101}, {"5": -100.1}, {"5": [1]},
    [], "x", 5,
]  # fmt: skip
OUTSIDE = [-1, VOCAB_SIZE, 999_999_999, 2**31, -(2**31), 2**63, 2**80]


@pytest.mark.parametrize("name", ["logit_bias", "stop_token_ids", "allowed_token_ids"])
async def test_an_id_outside_is_refused_and_the_next_request_served(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient, name: str
) -> None:
    for token_id in OUTSIDE:
        value: Any = {str(token_id): 5} if name == "logit_bias" else [FIRST, token_id]
        answer = await way.send(client, **{name: value})
        assert answer.status_code == 400, (token_id, answer.text)
        assert str(answer.json()["error"]["param"]).startswith(name)
    assert not engine.submitted
    await way.ask(client)


@pytest.mark.parametrize(
    "fields",
    [
        {"logit_bias": {str(FIRST): 5, str(LAST): -5}},
        {"logit_bias": {"5": 100, "6": -100}},
        {"logit_bias": {}},
        {"stop_token_ids": [FIRST, LAST]},
        {"stop_token_ids": []},
        {"allowed_token_ids": [FIRST, LAST]},
    ],
)
async def test_the_ends_of_the_vocabulary_and_of_the_bias_are_taken(
    way: Way, client: httpx.AsyncClient, fields: dict[str, Any]
) -> None:
    await way.ask(client, **fields)


async def test_a_bias_that_is_none_is_refused(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    for bias in NO_BIAS:
        answer = await way.send(client, logit_bias=bias)
        assert answer.status_code == 400, (bias, answer.text)
        assert answer.json()["error"]["param"].startswith("logit_bias")
    assert not engine.submitted


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_prompt_of_such_ids_is_refused(
    engine: ScriptedEngine, client: httpx.AsyncClient, streamed: bool
) -> None:
    way = Way(COMPLETIONS_PATH, streamed)
    for token_id in OUTSIDE:
        for prompt in ([token_id], [5, token_id], [[5], [token_id]]):
            answer = await way.send(client, prompt)
            assert answer.status_code == 400, (prompt, answer.text)
            assert answer.json()["error"]["param"].startswith("prompt")
    assert not engine.submitted
    await way.ask(client, [[FIRST], [LAST]])


async def test_no_such_id_has_a_text(client: httpx.AsyncClient) -> None:
    for token_id in OUTSIDE:
        answer = await client.post("/detokenize", json={"tokens": [5, token_id]})
        assert answer.status_code == 400, token_id
        assert answer.json()["error"]["param"].startswith("tokens")
