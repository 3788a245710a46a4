"""C13: a chat has the special tokens that its template writes, a completion those of the tokenizer.

vllm#2012, vllm#6699, vllm#4688, llama-cpp-python#1501.
"""

import pytest

from tests.support.frontend_app import ANSWER, encode, engine_that_says, http_client
from tests.support.tiny_tokenizer import CHAT_TEMPLATE
from tests.support.ways import WAYS, Way, name_of

BEGIN = 0
CHATS = [way for way in WAYS if way.is_chat]
COMPLETIONS = [way for way in WAYS if not way.is_chat]
RENDERED = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize("way", CHATS, ids=name_of)
@pytest.mark.parametrize(("begin", "num_begins"), [("{{ bos_token }}", 1), ("", 0)])
async def test_a_chat_has_what_its_template_writes_and_no_more(
    way: Way, begin: str, num_begins: int
) -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine, template=begin + CHAT_TEMPLATE) as client:
        reply = await way.ask(client)
        token_ids = engine.submitted[0].prompt_token_ids
        assert token_ids == [BEGIN] * num_begins + encode(RENDERED)
        assert reply.usage is not None
        assert reply.usage["prompt_tokens"] == len(token_ids)
        answer = await client.post("/tokenize", json={"messages": way.body()["messages"]})
        assert answer.json()["tokens"] == token_ids


@pytest.mark.parametrize("way", CHATS, ids=name_of)
async def test_a_chat_gets_them_twice_only_if_so_asked(way: Way) -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine, template="{{ bos_token }}" + CHAT_TEMPLATE) as client:
        await way.ask(client, add_special_tokens=True)
        await way.ask(client, add_special_tokens=False)
    twice, once = (request.prompt_token_ids for request in engine.submitted)
    assert (twice[:2], once[:2].count(BEGIN)) == ([BEGIN, BEGIN], 1)


@pytest.mark.parametrize("way", COMPLETIONS, ids=name_of)
async def test_a_completion_has_what_the_tokenizer_adds(way: Way) -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine, template=CHAT_TEMPLATE) as client:
        for fields, num_begins in (({}, 1), ({"add_special_tokens": False}, 0)):
            reply = await way.ask(client, "Hello", **fields)
            assert engine.submitted[-1].prompt_token_ids == [BEGIN] * num_begins + encode("Hello")
            assert reply.usage is not None
            assert reply.usage["prompt_tokens"] == num_begins + len(encode("Hello"))
