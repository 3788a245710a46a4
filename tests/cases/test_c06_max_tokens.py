"""C06: `max_tokens` that is null is left out; a limit below what makes sense is refused.

vllm#19862, vllm#6707, llama-gpt#113, llama-cpp-python#983, vllm#6521.
"""

from typing import Any

import httpx
import pytest

from tests.support.frontend_app import encode, engine_that_says, http_client
from tests.support.scripted_engine import ScriptedEngine
from tests.support.ways import WAYS, Way, check_refused, name_of

ENDLESS = "word " * 200
CONTEXT_TOKENS = 128
WRONG: list[Any] = [-1, -(2**31), -(2**70), 1.5, "5", True, [], {}]
CHATS = [way for way in WAYS if way.is_chat]
COMPLETIONS = [way for way in WAYS if not way.is_chat]


@pytest.mark.parametrize("nothing", [{}, {"max_tokens": None}], ids=["omitted", "null"])
async def test_without_a_limit_a_chat_fills_the_context_and_a_completion_has_16_tokens(
    way: Way, nothing: dict[str, Any]
) -> None:
    async with http_client(engine_that_says(ENDLESS)) as client:
        reply = await way.ask(client, **nothing)
        assert reply.usage is not None
        if way.is_chat:
            assert reply.usage["total_tokens"] == CONTEXT_TOKENS
        else:
            assert reply.usage["completion_tokens"] == 16
        assert reply.finish_reason == "length"


async def test_just_before_the_end_of_the_context_one_token_is_left(way: Way) -> None:
    engine = engine_that_says(ENDLESS)
    async with http_client(engine) as client:
        text = prompt_text(way, CONTEXT_TOKENS - 1)
        for fields in ({}, {"max_tokens": None}, {"max_tokens": 1}):
            reply = await way.ask(client, text, **fields)
            assert reply.usage is not None
            assert reply.usage["prompt_tokens"] == CONTEXT_TOKENS - 1
            assert reply.usage["completion_tokens"] == 1
            assert reply.finish_reason == "length"
        answer = await way.send(client, text, max_tokens=2)
        check_refused(answer, way.prompt_field, "context_length_exceeded")
        for fields in ({}, {"max_tokens": None}, {"max_tokens": 1}):
            answer = await way.send(client, prompt_text(way, CONTEXT_TOKENS), **fields)
            check_refused(answer, way.prompt_field, "context_length_exceeded")


async def test_what_is_no_number_of_tokens_is_refused(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    for wrong in WRONG:
        check_refused(await way.send(client, max_tokens=wrong), "max_tokens")
    assert not engine.submitted
    await way.ask(client)


@pytest.mark.parametrize("way", CHATS, ids=name_of)
async def test_a_chat_has_a_token_at_least(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    check_refused(await way.send(client, max_tokens=0), "max_tokens")
    assert not engine.submitted
    reply = await way.ask(client, max_tokens=1)
    assert reply.usage is not None
    assert reply.usage["completion_tokens"] == 1


@pytest.mark.parametrize("way", COMPLETIONS, ids=name_of)
async def test_a_completion_of_no_tokens_is_empty_or_its_prompt(
    way: Way, client: httpx.AsyncClient
) -> None:
    empty = await way.ask(client, "Hello", max_tokens=0)
    assert (empty.text, empty.finish_reason) == ("", "length")
    assert empty.usage is not None
    assert empty.usage["completion_tokens"] == 0
    echoed = await way.ask(client, "Hello", max_tokens=0, echo=True, n=2)
    assert [choice["text"] for choice in echoed.choices] == ["Hello", "Hello"]
    assert echoed.usage is not None
    assert echoed.usage["completion_tokens"] == 0


def prompt_text(way: Way, num_tokens: int) -> str:
    """A text whose prompt has so many tokens, with those that are added to it."""
    added = 1 if not way.is_chat else len(encode("<|im_start|>user\n<|im_end|>\n"))
    added += len(encode("<|im_start|>assistant\n")) if way.is_chat else 0
    text = "5" * (num_tokens - added)
    assert len(encode(text)) == len(text)
    return text
