"""C11: an answer ends exactly before its stop string, wherever tokens are cut, streamed and whole.

vllm#3574, SwiftLM#126, SwiftLM#132, mlx-knife#68, smg#2203, vmlx-swift#109.
"""

from typing import Any

import httpx
import pytest

from tests.support.frontend_app import ANSWER, engine_that_says, http_client
from tests.support.tiny_tokenizer import tiny_tokenizer
from tests.support.ways import WAYS, Way, name_of

STREAMS = [way for way in WAYS if way.is_streamed]
STOP_CHARACTERS = 7


def first_match(text: str, stop: str) -> str:
    """The text up to the first place at which the stop string is."""
    return text[: text.index(stop)]


async def test_every_place_in_a_real_models_answer(
    way: Way, model_client: httpx.AsyncClient
) -> None:
    settings: dict[str, Any] = {"temperature": 0, "max_tokens": 24, "ignore_eos": True}
    plain = await way.ask(model_client, "The four horses", **settings)
    for start in range(0, len(plain.text) - STOP_CHARACTERS, 5):
        stop = plain.text[start : start + STOP_CHARACTERS]
        if "\ufffd" in stop:
            continue
        reply = await way.ask(model_client, "The four horses", stop=[stop], **settings)
        assert reply.text == first_match(plain.text, stop), stop
        assert (reply.finish_reason, reply.choices[0]["stop_reason"]) == ("stop", stop)
        assert reply.usage is not None
        assert 0 < reply.usage["completion_tokens"] <= 24


@pytest.mark.parametrize("tokens_per_batch", [1, 2, 1000])
async def test_every_stop_at_every_place_however_many_tokens_come_at_once(
    way: Way, tokens_per_batch: int
) -> None:
    async with http_client(engine_that_says(ANSWER, tokens_per_batch=tokens_per_batch)) as client:
        for start in range(0, len(ANSWER), 3):
            for length in (1, 2, STOP_CHARACTERS):
                stop = ANSWER[start : start + length]
                reply = await way.ask(client, stop=stop, max_tokens=64)
                assert reply.text == first_match(ANSWER, stop), stop
                assert reply.finish_reason == "stop"


async def test_of_several_stops_the_first_in_the_text_counts(way: Way) -> None:
    async with http_client(engine_that_says(ANSWER, tokens_per_batch=1000)) as client:
        reply = await way.ask(client, stop=["you", "How", "todayx", "!"], max_tokens=64)
        assert (reply.text, reply.choices[0]["stop_reason"]) == ("Hello there", "!")


async def test_without_a_match_nothing_is_lost(way: Way, client: httpx.AsyncClient) -> None:
    stops = ["字x", "todayx", "?" * 50, ANSWER + "x"]
    reply = await way.ask(client, stop=stops, max_tokens=64)
    assert (reply.text, reply.finish_reason) == (ANSWER, "stop")
    assert "stop_reason" not in reply.choices[0]


@pytest.mark.parametrize("way", STREAMS, ids=name_of)
async def test_no_more_is_held_back_than_may_become_the_stop(
    way: Way, client: httpx.AsyncClient
) -> None:
    stop = "there! Hxy"
    reply = await way.ask(client, stop=stop, max_tokens=64, return_token_ids=True)
    heads = [stop[:length] for length in range(len(stop))]
    text = ""
    token_ids: list[int] = []
    for event in reply.events[:-1]:
        choice = event["choices"][0]
        text += choice["delta"].get("content", "") if way.is_chat else choice["text"]
        token_ids += choice.get("token_ids") or []
        generated = tiny_tokenizer().decode(token_ids, skip_special_tokens=True)
        assert generated.startswith(text)
        held = generated[len(text) :]
        assert any(held == head or held.rstrip("\ufffd") == head for head in heads), held
    assert text == ANSWER


async def test_the_tokens_of_the_stop_are_counted(way: Way) -> None:
    async with http_client(engine_that_says("one two three")) as client:
        plain = await way.ask(client, max_tokens=64, return_token_ids=True)
        reply = await way.ask(client, stop="three", max_tokens=64, return_token_ids=True)
        assert reply.text == "one two "
        assert reply.usage is not None
        num_tokens = reply.usage["completion_tokens"]
        assert reply.choices[0]["token_ids"] == plain.choices[0]["token_ids"][:num_tokens]
        decoded = tiny_tokenizer().decode(reply.choices[0]["token_ids"], skip_special_tokens=True)
        assert decoded == "one two three"
