"""The official client against the application over a real server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anthropic
import pytest
import pytest_asyncio
from anthropic.types import Message, MessageParam

from cluster.errors import NotServing, Overloaded
from frontend.request import GenerationRequest
from tests.frontend.anthropic.asking import (
    ARGUMENTS,
    NOW,
    TOOLS,
    WEATHER,
    app_of,
    prompt_of,
    without_ids,
)
from tests.support.frontend_app import ANSWER, encode, engine_that_says
from tests.support.scripted_engine import ScriptedEngine
from tests.support.served_app import served

MESSAGES: list[MessageParam] = [{"role": "user", "content": "Hi"}]
FIELDS: dict[str, Any] = {"model": "tiny", "max_tokens": 500, "messages": MESSAGES}
KEY = "secret"
THOUGHT = "<think>the quick dog</think>"

Result = TypeVar("Result")


@asynccontextmanager
async def client_of(
    engine: ScriptedEngine, **settings: Any
) -> AsyncIterator[anthropic.AsyncAnthropic]:
    """The client of an application over this engine; it does not try again."""
    async with (
        served(app_of(engine, api_key=[KEY], **settings)) as url,
        anthropic.AsyncAnthropic(
            base_url=url,
            api_key=KEY,
            max_retries=0,
            http_client=anthropic.DefaultAsyncHttpxClient(trust_env=False),
        ) as client,
    ):
        yield client
    await engine.close()


@pytest.fixture
def engine() -> ScriptedEngine:
    return engine_that_says(ANSWER)


@pytest_asyncio.fixture
async def client(engine: ScriptedEngine) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with client_of(engine) as client:
        yield client


async def with_sync_client(
    client: anthropic.AsyncAnthropic, use: Callable[[anthropic.Anthropic], Result]
) -> Result:
    """What comes of using the client that blocks, in a thread of its own."""

    def run() -> Result:
        with anthropic.Anthropic(
            base_url=str(client.base_url),
            api_key=KEY,
            max_retries=0,
            http_client=anthropic.DefaultHttpxClient(trust_env=False),
        ) as blocking:
            return use(blocking)

    return await asyncio.to_thread(run)


def dumped(message: Message) -> Any:
    """What the message holds, checked against the types that the client declares."""
    checked = Message.model_validate(message.model_dump(), strict=True)
    return without_ids(checked.model_dump())


async def test_a_message(client: anthropic.AsyncAnthropic) -> None:
    message = await client.messages.create(**FIELDS)
    assert dumped(message)["content"] == [{"type": "text", "text": ANSWER, "citations": None}]
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens == len(encode(ANSWER)) + 1


async def test_a_message_with_the_client_that_blocks(client: anthropic.AsyncAnthropic) -> None:
    message = await with_sync_client(client, lambda c: c.messages.create(**FIELDS))
    assert dumped(message) == dumped(await client.messages.create(**FIELDS))


async def test_a_stream_of_events(client: anthropic.AsyncAnthropic) -> None:
    text, kinds = "", []
    async for event in await client.messages.create(**FIELDS, stream=True):
        kinds.append(event.type)
        if event.type == "content_block_delta" and event.delta.type == "text_delta":
            text += event.delta.text
    assert text == ANSWER
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")


@pytest.mark.parametrize(
    "text", [ANSWER, f"{THOUGHT}I look. {WEATHER}\n{NOW}", f"{THOUGHT}{WEATHER}", ""]
)
@pytest.mark.parametrize("tokens_per_batch", [1, 7, 1000])
async def test_the_stream_helper_builds_the_whole_message(text: str, tokens_per_batch: int) -> None:
    engine = engine_that_says(text, tokens_per_batch=tokens_per_batch)
    async with client_of(engine, reasoning_parser="think") as client:
        whole = await client.messages.create(**FIELDS, tools=TOOLS)
        async with client.messages.stream(**FIELDS, tools=TOOLS) as stream:
            streamed = await stream.get_final_message()
    # Where a text may be parsed the helper has one more field.
    assert [b.to_dict(mode="json") | {"id": ""} for b in streamed.content] == [
        b.to_dict(mode="json") | {"id": ""} for b in whole.content
    ]
    assert streamed.usage == whole.usage
    assert streamed.stop_reason == whole.stop_reason


async def test_the_text_stream_of_the_client_that_blocks(client: anthropic.AsyncAnthropic) -> None:
    def read(blocking: anthropic.Anthropic) -> str:
        with blocking.messages.stream(**FIELDS) as stream:
            return "".join(stream.text_stream)

    assert await with_sync_client(client, read) == ANSWER


async def test_a_conversation_goes_on_behind_a_call() -> None:
    engine = engine_that_says(f"{THOUGHT}I look. {WEATHER}")
    async with client_of(engine, reasoning_parser="think") as client:
        first = await client.messages.create(**FIELDS, tools=TOOLS)
        call = first.content[-1]
        assert call.type == "tool_use"
        assert (call.name, call.input) == ("weather", {"city": "Köln"})
        result: Any = {"type": "tool_result", "tool_use_id": call.id, "content": "12 °C"}
        turns = [*MESSAGES, first.to_param(), {"role": "user", "content": [result]}]
        await client.messages.create(**(FIELDS | {"messages": turns}), tools=TOOLS)
    prompt = prompt_of(engine)
    assert f"I look. <call>weather({ARGUMENTS})" in prompt.replace("\n<call>", "<call>")
    assert "<|im_start|>tool\n12 °C" in prompt


async def test_tokens_are_counted(client: anthropic.AsyncAnthropic) -> None:
    counted = await client.messages.count_tokens(model="tiny", messages=MESSAGES, tools=TOOLS)
    message = await client.messages.create(**FIELDS, tools=TOOLS)
    assert counted.input_tokens == message.usage.input_tokens


async def test_errors_become_the_clients_exceptions(client: anthropic.AsyncAnthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="temperature must be at most 1"):
        await client.messages.create(**FIELDS, extra_body={"temperature": 1.5})
    with pytest.raises(anthropic.NotFoundError) as caught:
        await client.messages.create(**(FIELDS | {"model": "other"}))
    assert caught.value.type == "not_found_error"
    with pytest.raises(anthropic.AuthenticationError):
        await client.with_options(api_key="wrong").messages.create(**FIELDS)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (Overloaded("too much", 1), anthropic.RateLimitError),
        (NotServing("leaving", 1), anthropic.InternalServerError),
    ],
)
async def test_what_cannot_be_served_now_is_an_exception_of_its_own(
    client: anthropic.AsyncAnthropic, engine: ScriptedEngine, error: Exception, raised: type
) -> None:
    engine.room_error = error
    with pytest.raises(raised):
        await client.messages.create(**FIELDS)


async def test_a_client_that_tries_again_is_served(
    client: anthropic.AsyncAnthropic, engine: ScriptedEngine
) -> None:
    failed = 0

    def refuse_once(sketch: GenerationRequest) -> None:
        nonlocal failed
        failed += 1
        if failed == 1:
            raise Overloaded("too much", 1)

    engine.check_room = refuse_once  # type: ignore[method-assign]
    message = await client.with_options(max_retries=1).messages.create(**FIELDS)
    assert (message.stop_reason, failed) == ("end_turn", 2)


async def test_an_error_in_mid_stream_is_raised(
    client: anthropic.AsyncAnthropic, engine: ScriptedEngine
) -> None:
    engine.tokens_before_hold, engine.error = 3, "it died"
    with pytest.raises(anthropic.APIStatusError, match="it died") as caught:
        async for _ in await client.messages.create(**FIELDS, stream=True):
            pass
    assert caught.value.type == "api_error"


async def test_a_client_that_closes_a_stream_frees_its_request(
    client: anthropic.AsyncAnthropic, engine: ScriptedEngine
) -> None:
    engine.tokens_before_hold = 3
    stream = await client.messages.create(**FIELDS, stream=True)
    await engine.wait_until_holding()
    await stream.close()
    await engine.wait_until_aborted()
    assert len(engine.aborted) == 1
