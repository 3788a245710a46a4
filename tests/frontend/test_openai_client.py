"""The official client against the application over a real server."""

import asyncio
from collections.abc import AsyncIterator

import openai
import pytest
import pytest_asyncio
from openai.types.chat import ChatCompletionMessageParam

from tests.support.frontend_app import ANSWER, encode, engine_that_says, make_app
from tests.support.official_client import official_client
from tests.support.scripted_engine import ScriptedEngine

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hi"}]


@pytest.fixture
def engine() -> ScriptedEngine:
    return engine_that_says(ANSWER)


@pytest_asyncio.fixture
async def client(engine: ScriptedEngine) -> AsyncIterator[openai.AsyncOpenAI]:
    async with official_client(make_app(engine, api_key=["secret"]), "secret") as client:
        yield client
    await engine.close()


async def test_a_chat_answer(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="tiny", messages=MESSAGES, logprobs=True, top_logprobs=2
    )
    assert answer.choices[0].message.content == ANSWER
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len(encode(ANSWER)) + 1
    assert answer.usage.prompt_tokens_details is not None
    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.content is not None
    assert answer.model_dump()["quadriga"]["migrations"] == 0


async def test_a_chat_stream_with_usage(client: openai.AsyncOpenAI) -> None:
    text = ""
    usage = None
    stream = await client.chat.completions.create(
        model="tiny", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    async for chunk in stream:
        usage = chunk.usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert text == ANSWER
    assert usage is not None
    assert usage.completion_tokens == len(encode(ANSWER)) + 1


async def test_the_stream_helper_builds_the_same_answer(client: openai.AsyncOpenAI) -> None:
    async with client.chat.completions.stream(model="tiny", messages=MESSAGES, n=2) as stream:
        final = await stream.get_final_completion()
    assert [choice.message.content for choice in final.choices] == [ANSWER, ANSWER]


async def test_completions_and_models(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(
        model="tiny", prompt=[[5, 6], [7]], max_tokens=40, logprobs=1
    )
    assert [choice.text for choice in answer.choices] == [ANSWER, ANSWER]
    [model] = (await client.models.list()).data
    assert model == await client.models.retrieve("tiny")


async def test_errors_become_the_clients_exceptions(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        await client.chat.completions.create(model="other", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=1000)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="wrong").models.list()


async def test_an_error_in_mid_stream_is_raised(
    client: openai.AsyncOpenAI, engine: ScriptedEngine
) -> None:
    engine.tokens_before_hold, engine.error = 3, "it died"
    stream = await client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
    with pytest.raises(openai.APIError, match="it died"):
        async for _ in stream:
            pass


async def test_the_request_id_comes_back(client: openai.AsyncOpenAI) -> None:
    raw = await client.models.with_raw_response.list(extra_headers={"x-request-id": "mine"})
    assert raw.headers["x-request-id"] == "mine"


async def test_a_client_that_closes_a_stream_frees_its_request(
    client: openai.AsyncOpenAI, engine: ScriptedEngine
) -> None:
    engine.tokens_before_hold = 3
    stream = await client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
    await engine.wait_until_holding()
    await stream.close()
    await engine.wait_until_aborted()
    assert len(engine.aborted) == 1


async def test_a_client_that_gives_up_waiting_frees_its_request(
    client: openai.AsyncOpenAI, engine: ScriptedEngine
) -> None:
    engine.tokens_before_hold = 3
    waiting = asyncio.create_task(client.chat.completions.create(model="tiny", messages=MESSAGES))
    await engine.wait_until_holding()
    waiting.cancel()
    await engine.wait_until_aborted()
    assert len(engine.aborted) == 1
