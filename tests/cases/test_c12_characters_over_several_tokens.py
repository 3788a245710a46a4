"""C12: a character whose bytes come in several tokens is shown when it is whole.

mlc-llm#1142, lucebox#641, tensai#110, ollama-js#255, vllm#28874.
"""

import pytest

from tests.support.frontend_app import encode, engine_that_says, http_client
from tests.support.tiny_tokenizer import tiny_tokenizer
from tests.support.ways import WAYS, Way, name_of

TEXT = "Repeat: 😀 漢字 🧑\u200d🚀 é́ end"
STREAMS = [way for way in WAYS if way.is_streamed]
NUM_TOKENS = len(encode(TEXT))


@pytest.mark.parametrize("tokens_per_batch", [1, 2, 3, 1000])
async def test_no_character_is_shown_in_parts(way: Way, tokens_per_batch: int) -> None:
    async with http_client(engine_that_says(TEXT, tokens_per_batch=tokens_per_batch)) as client:
        reply = await way.ask(client, max_tokens=NUM_TOKENS + 1)
        assert reply.text == TEXT
        assert not any("\\ufffd" in str(event) or "\ufffd" in str(event) for event in reply.events)


async def test_a_cut_inside_a_character_ends_in_what_is_left_of_it(way: Way) -> None:
    async with http_client(engine_that_says(TEXT)) as client:
        for num_tokens in range(1, NUM_TOKENS + 1):
            reply = await way.ask(client, max_tokens=num_tokens)
            decoded = tiny_tokenizer().decode(encode(TEXT)[:num_tokens], skip_special_tokens=True)
            assert reply.text == decoded, num_tokens
            assert reply.finish_reason == "length"


@pytest.mark.parametrize("way", STREAMS, ids=name_of)
async def test_only_the_last_chunk_may_hold_half_a_character(way: Way) -> None:
    async with http_client(engine_that_says(TEXT)) as client:
        for num_tokens in range(1, NUM_TOKENS + 1):
            reply = await way.ask(client, max_tokens=num_tokens, stream_options=None)
            texts = [
                choice["delta"].get("content", "") if way.is_chat else choice["text"]
                for event in reply.events
                for choice in event["choices"]
            ]
            assert not any("\ufffd" in text for text in texts[:-1]), num_tokens


async def test_a_prompt_with_such_characters_arrives_whole(way: Way) -> None:
    engine = engine_that_says("Hello")
    async with http_client(engine) as client:
        await way.ask(client, TEXT, max_tokens=1)
    prompt = tiny_tokenizer().decode(engine.submitted[0].prompt_token_ids, True)
    assert TEXT in prompt
