"""C34: an answer is the same from the prefix cache or without it, and after its request was put aside.

tenstorrent/vllm#415, openvino.genai#3722, vllm#12621, vllm#44701, vllm#7845, vllm#45414, vllm#15996,
vllm#39734.
"""

import asyncio
from typing import Any

import httpx
import pytest

from tests.integration.test_every_position import Served
from tests.support.frontend_app import ANSWER, engine_that_says, http_client
from tests.support.ways import COMPLETIONS_PATH, Way, check_refused

BLOCK_TOKENS = 4
SETTINGS: dict[str, Any] = {"temperature": 0, "max_tokens": 8, "ignore_eos": True}
SMALL_POOL_BLOCKS = 40
NUM_LONG = 30


def cached_tokens(usage: dict[str, Any]) -> int:
    return int(usage["prompt_tokens_details"]["cached_tokens"])


async def complete(client: httpx.AsyncClient, prompt: list[int], **fields: Any) -> Any:
    answer = await client.post(COMPLETIONS_PATH, json={"prompt": prompt, **SETTINGS, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_hit_equals_a_miss(way: Way, model_client: httpx.AsyncClient) -> None:
    text = "The four horses of the quadriga run abreast before one chariot"
    fields = SETTINGS | {"logprobs": True if way.is_chat else 1, "return_token_ids": True}
    replies = [await way.ask(model_client, text, **fields) for _ in range(3)]
    assert replies == [replies[0]] * 3
    answer = await model_client.post(way.path, json=Way(way.path, False).body(text, **fields))
    assert cached_tokens(answer.json()["usage"]) >= 2 * BLOCK_TOKENS


@pytest.mark.parametrize("num_tokens", range(3 * BLOCK_TOKENS - 1, 3 * BLOCK_TOKENS + 3))
async def test_whole_blocks_are_found_but_never_the_last_token(
    served: Served, num_tokens: int
) -> None:
    prompt = list(range(20, 20 + num_tokens))
    async with served.client() as (client, _):
        first, second = [await complete(client, prompt) for _ in range(2)]
    assert first["choices"][0]["text"] == second["choices"][0]["text"]
    assert cached_tokens(first["usage"]) == 0
    assert cached_tokens(second["usage"]) == (num_tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS


async def test_prompts_that_differ_in_one_early_token_share_nothing_behind_it(
    served: Served,
) -> None:
    prompts = [[first, *range(50, 62)] for first in (20, 21, 22)]
    alone = []
    for prompt in prompts:
        async with served.client() as (client, _):
            alone.append((await complete(client, prompt))["choices"][0]["text"])
    async with served.client() as (client, _):
        for _ in range(3):
            for prompt, expected in zip(prompts, alone, strict=True):
                answer = await complete(client, prompt)
                assert answer["choices"][0]["text"] == expected


async def test_a_salt_parts_what_is_cached(served: Served) -> None:
    prompt = list(range(20, 40))
    async with served.client() as (client, _):
        answers = [await complete(client, prompt, cache_salt=salt) for salt in ("a", "b", "a")]
    assert [bool(cached_tokens(answer["usage"])) for answer in answers] == [False, False, True]
    assert len({answer["choices"][0]["text"] for answer in answers}) == 1


async def test_requests_that_were_put_aside_end_with_the_text_they_would_have_had(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [[20 + number, 30, 40, 50, 60] for number in range(NUM_LONG)]
    fields: dict[str, Any] = {"max_tokens": 40, "logprobs": 0}

    async def ask_all(client: httpx.AsyncClient) -> list[Any]:
        answers = await asyncio.gather(*(complete(client, p, **fields) for p in prompts))
        return [answer["choices"][0] for answer in answers]

    async with served.client() as (client, _):
        expected = await ask_all(client)
    monkeypatch.setattr(served.runner, "num_blocks", SMALL_POOL_BLOCKS)
    async with served.client() as (client, engines):
        assert await ask_all(client) == expected
        assert engines._core._scheduler.counters.preemptions > 0


async def test_what_can_never_fit_is_refused_at_once(way: Way) -> None:
    engine = engine_that_says(ANSWER, kv_capacity_tokens=32)
    async with http_client(engine) as client:
        answer = await way.send(client, max_tokens=32)
        message = check_refused(answer, way.prompt_field, "context_length_exceeded")
        assert "KV cache" in message
        assert not engine.submitted
