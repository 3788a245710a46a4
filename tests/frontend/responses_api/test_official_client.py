"""The official client's Responses API against the application over a real server."""

import asyncio
from typing import Any

import openai
import pydantic
import pytest
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseReasoningItem,
    ResponseStreamEvent,
)

from frontend.tokenizer import Tokenizer
from tests.frontend.responses_api.asking import (
    ARGUMENTS,
    THINKS,
    TOOLS,
    WEATHER,
    official_client_of,
)
from tests.support.frontend_app import ANSWER, encode, engine_that_says
from tests.support.tiny_tokenizer import byte_level_backend


class City(pydantic.BaseModel):
    """What the model is to say."""

    name: str
    people: int


async def see_all(stream: openai.AsyncStream[ResponseStreamEvent], seen: set[str]) -> None:
    """Add the types of events to those seen, as far as the stream goes."""
    async for event in stream:
        seen.add(event.type)


async def test_a_response_and_its_text() -> None:
    async with official_client_of(engine_that_says(ANSWER)) as client:
        response = await client.responses.create(model="tiny", input="Hi", instructions="Be kind.")
    assert response.output_text == ANSWER
    assert response.status == "completed"
    assert response.usage is not None
    assert response.usage.output_tokens == len(encode(ANSWER)) + 1


async def test_a_stream_of_events() -> None:
    async with official_client_of(engine_that_says(ANSWER)) as client:
        events = [
            event
            async for event in await client.responses.create(model="tiny", input="Hi", stream=True)
        ]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == ANSWER
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == ANSWER


async def test_the_client_that_waits() -> None:
    async with official_client_of(engine_that_says(ANSWER)) as client:

        def ask() -> tuple[str, str]:
            with openai.OpenAI(
                base_url=client.base_url,
                api_key="none",
                max_retries=0,
                http_client=openai.DefaultHttpxClient(trust_env=False),
            ) as waiting:
                whole = waiting.responses.create(model="tiny", input="Hi")
                with waiting.responses.stream(model="tiny", input="Hi") as stream:
                    return whole.output_text, stream.get_final_response().output_text

        assert await asyncio.to_thread(ask) == (ANSWER, ANSWER)


@pytest.mark.parametrize("tokens_per_batch", [1, 1000])
async def test_the_stream_helper_builds_the_whole_answer(tokens_per_batch: int) -> None:
    text = f"<think>the quick dog</think>I look. {WEATHER}"
    engine = engine_that_says(text, tokens_per_batch=tokens_per_batch)
    async with (
        official_client_of(engine, **THINKS) as client,
        client.responses.stream(model="tiny", input="Hi", tools=TOOLS) as stream,
    ):
        final = await stream.get_final_response()
    reasoning, message, call = final.output
    assert isinstance(reasoning, ResponseReasoningItem)
    assert reasoning.content is not None
    assert reasoning.content[0].text == "the quick dog"
    assert message.type == "message"
    assert isinstance(call, ResponseFunctionToolCall)
    assert (call.name, call.arguments) == ("weather", ARGUMENTS)


async def test_an_answer_is_parsed_into_the_clients_own_type() -> None:
    engine = engine_that_says('{"name": "Köln", "people": 1}')
    async with official_client_of(engine) as client:
        response = await client.responses.parse(model="tiny", input="Hi", text_format=City)
        assert response.output_parsed == City(name="Köln", people=1)
        async with client.responses.stream(model="tiny", input="Hi", text_format=City) as stream:
            final = await stream.get_final_response()
    assert final.output_parsed == response.output_parsed
    assert all(request.sampling.grammar for request in engine.submitted)


async def test_a_conversation_goes_on_with_the_items_of_an_answer() -> None:
    engine = engine_that_says(f"<think>the quick dog</think>I look. {WEATHER}")
    async with official_client_of(engine, **THINKS) as client:
        items: list[Any] = [{"role": "user", "content": "How warm is it?"}]
        first = await client.responses.create(model="tiny", input=items, tools=TOOLS)
        call = first.output[-1]
        assert isinstance(call, ResponseFunctionToolCall)
        items += first.output
        items.append(
            {"type": "function_call_output", "call_id": call.call_id, "output": "12 degrees"}
        )
        await client.responses.create(model="tiny", input=items, tools=TOOLS)
    text = Tokenizer(byte_level_backend()).decode(
        engine.submitted[1].prompt_token_ids, skip_special_tokens=False
    )
    assert "<|im_start|>user\nHow warm is it?" in text
    assert f"<|im_start|>assistant\nI look. <call>weather({ARGUMENTS})<|im_end|>" in text
    assert "<|im_start|>tool\n12 degrees" in text


async def test_an_error_in_mid_stream_is_raised() -> None:
    engine = engine_that_says(ANSWER, error="it died", tokens_before_hold=3)
    async with official_client_of(engine) as client:
        stream = await client.responses.create(model="tiny", input="Hi", stream=True)
        seen: set[str] = set()
        with pytest.raises(openai.APIError, match="it died") as caught:
            await see_all(stream, seen)
    assert caught.value.code == "engine_failed"
    assert "response.failed" in seen
    assert "response.completed" not in seen


async def test_errors_become_the_clients_exceptions() -> None:
    async with official_client_of(engine_that_says(ANSWER)) as client:
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="other", input="Hi")
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="tiny", input="Hi", max_output_tokens=10_000)
        assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input")
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="tiny", input="Hi", previous_response_id="resp_1")
        assert caught.value.param == "previous_response_id"


async def test_a_client_that_closes_a_stream_frees_its_request() -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=3)
    async with official_client_of(engine) as client:
        stream = await client.responses.create(model="tiny", input="Hi", stream=True)
        await engine.wait_until_holding()
        await stream.close()
        await engine.wait_until_aborted()
    assert len(engine.aborted) == 1
