"""C01: a request without anything to answer is refused as the client's mistake, naming the field.

letta#3381, anything-llm#6430, ai-dynamo/dynamo#2067, llm-d-inference-sim#674, OmniRoute#6515.
"""

from typing import Any

import httpx
import pytest

from cluster.config import FrontendConfig
from frontend.model_info import ModelInfo
from tests.support.frontend_app import engine_that_says, http_client
from tests.support.scripted_engine import ScriptedEngine
from tests.support.tiny_tokenizer import VOCAB_SIZE
from tests.support.ways import CHAT_PATH, Way, check_refused

MAX_MESSAGES = FrontendConfig().max_messages
NOTHING: list[Any] = [..., None, [], 5, {}, False]
ROOMY = ModelInfo("tiny", max_model_len=10**6, vocab_size=VOCAB_SIZE, eos_token_ids=(2,))


async def test_nothing_to_answer_is_refused_by_the_name_of_the_field(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    for nothing in NOTHING:
        for model in ({}, {"model": "tiny"}):
            answer = await way.send(client, **{way.prompt_field: nothing}, **model)
            check_refused(answer, way.prompt_field)
    assert not engine.submitted
    await way.ask(client)


async def test_a_wrong_model_does_not_hide_that_there_is_nothing(
    way: Way, client: httpx.AsyncClient
) -> None:
    for nothing in (..., None, 5):
        answer = await way.send(client, model="other", **{way.prompt_field: nothing})
        check_refused(answer, way.prompt_field)


@pytest.mark.parametrize("item", [None, 5, "Hi", []])
async def test_a_message_that_is_none_is_named_by_its_place(
    engine: ScriptedEngine, client: httpx.AsyncClient, item: Any
) -> None:
    for streamed in (False, True):
        messages = [{"role": "user", "content": "Hi"}, item]
        answer = await client.post(CHAT_PATH, json={"messages": messages, "stream": streamed})
        check_refused(answer, "messages[1]")
    assert not engine.submitted


async def test_a_message_with_an_empty_text_is_a_message(way: Way) -> None:
    # Of a completion, the token that the tokenizer adds is left.
    async with http_client(engine_that_says("Hello")) as client:
        assert (await way.ask(client, "")).text == "Hello"


@pytest.mark.parametrize("streamed", [False, True])
async def test_so_many_messages_are_taken_and_no_more(streamed: bool) -> None:
    engine = engine_that_says("Hello")
    message = {"role": "user", "content": "x"}
    async with http_client(engine, ROOMY) as client:
        body = {"messages": [message] * (MAX_MESSAGES + 1), "stream": streamed, "max_tokens": 1}
        check_refused(await client.post(CHAT_PATH, json=body), "messages")
        assert not engine.submitted
        body["messages"] = [message] * MAX_MESSAGES
        assert (await client.post(CHAT_PATH, json=body)).status_code == 200
