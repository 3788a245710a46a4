"""Tools and reasoning through the application: with the official client, and as JSON."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from cluster.config import ClusterConfig, EngineConfig, FrontendConfig
from frontend.app import build_app
from frontend.model_info import ModelInfo
from frontend.tokenizer import Tokenizer
from tests.support.frontend_app import encode, engine_that_says, events_of, http_client
from tests.support.official_client import official_client
from tests.support.scripted_engine import ScriptedEngine
from tests.support.tiny_tokenizer import CHAT_TEMPLATE, SPECIAL_TOKENS, byte_level_backend

MODEL = ModelInfo(name="tiny", max_model_len=2048, vocab_size=400, eos_token_ids=(2,))
TEMPLATE = "{% if tools %}Tools in <tool_call>: {{ tools | tojson }}\n{% endif %}" + CHAT_TEMPLATE
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "weather", "parameters": CITY}},
    {"type": "function", "function": {"name": "now"}},
]
MESSAGES: list[Any] = [{"role": "user", "content": "How warm is it?"}]
ARGUMENTS = '{"city": "Köln"}'
WEATHER = '<tool_call>\n{"name": "weather", "arguments": ' + ARGUMENTS + "}\n</tool_call>"
NOW = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
BOTH = f"{WEATHER}\n{NOW}"


@asynccontextmanager
async def client_of(
    engine: ScriptedEngine, template: str = TEMPLATE, **settings: Any
) -> AsyncIterator[openai.AsyncOpenAI]:
    """The official client of an application that listens on a port of its own."""
    cluster = ClusterConfig(engine=EngineConfig(block_size=4), frontend=FrontendConfig(**settings))
    app = build_app(
        cluster, MODEL, Tokenizer(byte_level_backend(), SPECIAL_TOKENS, template), engine
    )
    async with official_client(app) as client:
        yield client
    await engine.close()


async def ask(text: str, *, settings: Any = None, **fields: Any) -> ChatCompletion:
    """The whole answer of a model that says this."""
    async with client_of(engine_that_says(text), **(settings or {})) as client:
        answer = await client.chat.completions.create(model="tiny", messages=MESSAGES, **fields)
        assert isinstance(answer, ChatCompletion)
        return answer


async def stream(
    text: str, *, settings: Any = None, tokens_per_batch: int = 1, **fields: Any
) -> list[ChatCompletionChunk]:
    """The chunks of a model that says this."""
    engine = engine_that_says(text, tokens_per_batch=tokens_per_batch)
    async with client_of(engine, **(settings or {})) as client:
        chunks = await client.chat.completions.create(
            model="tiny", messages=MESSAGES, stream=True, **fields
        )
        return [chunk async for chunk in chunks]


def called(answer: ChatCompletion) -> list[tuple[str, str]]:
    calls = answer.choices[0].message.tool_calls or []
    return [
        (call.function.name, call.function.arguments) for call in calls if call.type == "function"
    ]


async def test_calls_are_told_apart_and_content_is_null_where_there_is_none() -> None:
    answer = await ask(BOTH, tools=TOOLS)
    choice = answer.choices[0]
    assert called(answer) == [("weather", ARGUMENTS), ("now", "{}")]
    assert choice.message.content is None
    assert choice.finish_reason == "tool_calls"
    ids = {call.id for call in choice.message.tool_calls or []}
    assert len(ids) == 2
    assert all(call_id.startswith("call_") for call_id in ids)


async def test_text_without_calls_is_an_ordinary_answer() -> None:
    answer = await ask("Hello there!", tools=TOOLS)
    assert answer.choices[0].message.content == "Hello there!"
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("text", [BOTH, f"I look. {WEATHER}", "Hello there!", "<tool_call>no"])
@pytest.mark.parametrize("tokens_per_batch", [1, 5, 1000])
async def test_the_stream_helper_builds_the_whole_answer(text: str, tokens_per_batch: int) -> None:
    engine = engine_that_says(text, tokens_per_batch=tokens_per_batch)
    async with client_of(engine) as client:
        fields: Any = {"model": "tiny", "messages": MESSAGES, "tools": TOOLS, "n": 2}
        whole = await client.chat.completions.create(**fields)
        async with client.chat.completions.stream(**fields) as events:
            streamed = await events.get_final_completion()
    for one, other in zip(whole.choices, streamed.choices, strict=True):
        assert other.message.content == one.message.content
        assert other.finish_reason == one.finish_reason
    assert called(streamed) == called(whole)


async def test_a_call_is_streamed_by_its_name_and_then_its_arguments() -> None:
    chunks = await stream(BOTH, tools=TOOLS)
    deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    first, *others = [delta for delta in deltas if delta.index == 0]
    assert first.id is not None
    assert first.type == "function"
    assert first.function is not None
    assert (first.function.name, first.function.arguments) == ("weather", "")
    assert len(others) > 1
    assert all(delta.id is None and delta.type is None for delta in others)
    assert all(delta.function is not None and delta.function.name is None for delta in others)
    texts = [delta.function.arguments or "" for delta in others if delta.function is not None]
    assert "".join(texts) == ARGUMENTS
    assert [delta.index for delta in deltas] == sorted(delta.index for delta in deltas)
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == [
        "tool_calls"
    ]


async def test_only_the_first_call_is_told_where_one_is_wanted() -> None:
    answer = await ask(BOTH, tools=TOOLS, parallel_tool_calls=False)
    assert called(answer) == [("weather", ARGUMENTS)]


async def test_logprobs_and_token_ids_come_once_however_a_stream_is_cut() -> None:
    fields = {"tools": TOOLS, "logprobs": True, "extra_body": {"return_token_ids": True}}
    chunks = await stream(f"So: {BOTH}", tokens_per_batch=7, **fields)
    choices = [chunk.choices[0] for chunk in chunks]
    token_ids = [i for choice in choices for i in choice.model_dump().get("token_ids") or []]
    assert token_ids == [*encode(f"So: {BOTH}"), 2]
    logprobs = [
        item for choice in choices if choice.logprobs for item in choice.logprobs.content or []
    ]
    assert len(logprobs) == len(token_ids)


async def test_a_stop_string_ends_calls_too() -> None:
    answer = await ask(BOTH, tools=TOOLS, stop="</tool_call>")
    assert called(answer) == [("weather", ARGUMENTS)]
    assert answer.choices[0].finish_reason == "tool_calls"


async def test_a_call_that_is_cut_off_ended_by_length() -> None:
    answer = await ask(WEATHER, tools=TOOLS, max_tokens=len(encode(WEATHER)) - 20)
    assert answer.choices[0].finish_reason == "length"
    [(name, arguments)] = called(answer)
    assert name == "weather"
    assert ARGUMENTS.startswith(arguments)


async def test_calls_stay_text_where_tools_may_not_be_used() -> None:
    answer = await ask(BOTH, tools=TOOLS, tool_choice="none")
    assert answer.choices[0].message.content == BOTH
    assert answer.choices[0].finish_reason == "stop"


async def test_the_configured_parser_wins_over_the_templates() -> None:
    text = f"[TOOL_CALLS]weather{ARGUMENTS}"
    answer = await ask(text, settings={"tool_call_parser": "mistral"}, tools=TOOLS)
    assert called(answer) == [("weather", ARGUMENTS)]


REQUIRED = '[{"name": "weather", "parameters": ' + ARGUMENTS + "}]"


@pytest.mark.parametrize("template", [TEMPLATE, CHAT_TEMPLATE])
@pytest.mark.parametrize(
    ("choice", "text", "finish_reason"),
    [
        ("required", REQUIRED, "tool_calls"),
        ({"type": "function", "function": {"name": "weather"}}, ARGUMENTS, "stop"),
    ],
)
async def test_a_forced_call_is_held_to_a_grammar_whatever_the_template_knows(
    template: str, choice: Any, text: str, finish_reason: str
) -> None:
    engine = engine_that_says(text)
    async with client_of(engine, template, reasoning_parser="deepseek_r1") as client:
        answer = await client.chat.completions.create(
            model="tiny", messages=MESSAGES, tools=TOOLS, tool_choice=choice
        )
    assert called(answer) == [("weather", ARGUMENTS)]
    assert answer.choices[0].finish_reason == finish_reason
    assert engine.submitted[0].sampling.grammar


async def test_the_model_hears_of_the_tools() -> None:
    engine = engine_that_says("Hello")
    async with client_of(engine) as client:
        await client.chat.completions.create(model="tiny", messages=MESSAGES, tools=TOOLS)
    shown = "Tools in <tool_call>: " + json.dumps(TOOLS)
    assert engine.submitted[0].prompt_token_ids[: len(encode(shown))] == encode(shown)
    assert not engine.submitted[0].sampling.grammar


async def test_tools_that_the_model_would_never_hear_of_are_refused() -> None:
    engine = engine_that_says("Hello")
    async with client_of(engine, CHAT_TEMPLATE) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model="tiny", messages=MESSAGES, tools=TOOLS)
    assert caught.value.param == "tools"
    assert not engine.submitted


async def test_a_conversation_goes_on_behind_a_call() -> None:
    engine = engine_that_says(WEATHER)
    async with client_of(engine) as client:
        fields: Any = {"model": "tiny", "tools": TOOLS}
        first = await client.chat.completions.create(messages=MESSAGES, **fields)
        turn = first.choices[0].message
        assert turn.tool_calls is not None
        result: Any = {"role": "tool", "tool_call_id": turn.tool_calls[0].id, "content": "12 °C"}
        await client.chat.completions.create(messages=[*MESSAGES, turn, result], **fields)
    prompt = engine.submitted[1].prompt_token_ids
    text = Tokenizer(byte_level_backend()).decode(prompt, skip_special_tokens=False)
    assert f"<call>weather({ARGUMENTS})" in text
    assert "tool\n12 °C" in text


async def test_functions_are_answered_as_they_were_asked_for() -> None:
    functions = [tool["function"] for tool in TOOLS]
    answer = await ask(BOTH, functions=functions)
    message = answer.choices[0].message
    assert message.function_call is not None
    assert (message.function_call.name, message.function_call.arguments) == ("weather", ARGUMENTS)
    assert message.tool_calls is None
    assert answer.choices[0].finish_reason == "function_call"
    chunks = await stream(BOTH, functions=functions)
    calls = [c.choices[0].delta.function_call for c in chunks if c.choices[0].delta.function_call]
    assert (calls[0].name, calls[0].arguments) == ("weather", "")
    assert "".join(call.arguments or "" for call in calls) == ARGUMENTS


THOUGHT = "<think>the quick dog</think>Yes."
THINKS = {"reasoning_parser": "qwen3"}


async def test_reasoning_is_no_content_and_its_tokens_are_counted() -> None:
    answer = await ask(THOUGHT, settings=THINKS)
    message = answer.choices[0].message.model_dump()
    assert message["content"] == "Yes."
    assert message["reasoning_content"] == message["reasoning"] == "the quick dog"
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    num_tokens = len(encode(THOUGHT.removesuffix("Yes.")))
    assert answer.usage.completion_tokens_details.reasoning_tokens == num_tokens


async def test_reasoning_is_streamed_before_content() -> None:
    chunks = await stream(THOUGHT, settings=THINKS, stream_options={"include_usage": True})
    deltas = [chunk.choices[0].delta.model_dump() for chunk in chunks if chunk.choices]
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "the quick dog"
    assert "".join(delta.get("content") or "" for delta in deltas) == "Yes."
    assert sum(1 for delta in deltas if delta.get("reasoning")) > 1
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens


async def test_reasoning_that_nobody_wants_is_left_out() -> None:
    answer = await ask(THOUGHT, settings=THINKS, extra_body={"include_reasoning": False})
    message = answer.choices[0].message.model_dump()
    assert message["content"] == "Yes."
    assert "reasoning_content" not in message
    chunks = await stream(THOUGHT, settings=THINKS, extra_body={"include_reasoning": False})
    assert not [c for c in chunks if "reasoning" in c.choices[0].delta.model_dump()]


async def test_a_thought_that_the_template_began_is_known_by_the_prompt() -> None:
    engine = engine_that_says(THOUGHT.removeprefix("<think>"))
    async with client_of(engine, CHAT_TEMPLATE + "<think>\n", **THINKS) as client:
        answer = await client.chat.completions.create(model="tiny", messages=MESSAGES)
    message = answer.choices[0].message.model_dump()
    assert (message["reasoning"], message["content"]) == ("the quick dog", "Yes.")


@pytest.mark.parametrize("parser", ["deepseek_r1", "qwen3"])
@pytest.mark.parametrize(
    ("begun", "text", "reasoning", "content"),
    [
        ("Yes, the quick", " dog.", "", " dog."),
        ("<think>the quick", " dog</think>Yes.", " dog", "Yes."),
    ],
)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_final_message_goes_on_as_content_unless_it_ends_inside_a_thought(
    parser: str, begun: str, text: str, reasoning: str, content: str, is_streamed: bool
) -> None:
    body = {
        "messages": [*MESSAGES, {"role": "assistant", "content": begun}],
        "continue_final_message": True, "add_generation_prompt": False, "stream": is_streamed,
    }  # fmt: skip
    async with http_client(engine_that_says(text), MODEL, reasoning_parser=parser) as client:
        answer = await client.post("/v1/chat/completions", json=body)
    if is_streamed:
        told = [chunk["choices"][0]["delta"] for chunk in events_of(answer)]
    else:
        told = [answer.json()["choices"][0]["message"]]
    assert "".join(part.get("reasoning") or "" for part in told) == reasoning
    assert "".join(part.get("content") or "" for part in told) == content


async def test_without_a_parser_the_text_is_unchanged() -> None:
    answer = await ask(THOUGHT)
    assert answer.choices[0].message.content == THOUGHT
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is None


async def test_calls_follow_reasoning() -> None:
    answer = await ask(f"<think>{NOW}</think>\n\n{WEATHER}", settings=THINKS, tools=TOOLS)
    assert called(answer) == [("weather", ARGUMENTS)]
    assert answer.choices[0].message.content is None
    assert answer.choices[0].message.model_dump()["reasoning"] == NOW


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": TOOLS, "tool_choice": {"function": {"name": "f"}}}, "tool_choice"),
        ({"tools": TOOLS * 65}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"function_call": {"name": "now"}}, "function_call"),
    ],
)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_what_is_wrong_is_told_before_anything_is_generated(
    fields: dict[str, Any], param: str, is_streamed: bool
) -> None:
    engine = engine_that_says("Hello")
    async with http_client(engine) as client:
        body = {"messages": MESSAGES, "stream": is_streamed, **fields}
        response = await client.post("/v1/chat/completions", json=body)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param
    assert not engine.submitted


async def test_a_first_chunk_says_nothing_of_content_that_may_not_come() -> None:
    engine = engine_that_says("Hello")
    async with http_client(engine, MODEL, reasoning_parser="think") as client:
        body = {"messages": MESSAGES, "stream": True}
        chunks = events_of(await client.post("/v1/chat/completions", json=body))
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}
