"""POST /v1/messages, whole."""

from typing import Any

import pytest

from tests.frontend.anthropic.asking import (
    ARGUMENTS,
    BODY,
    CITY,
    NOW,
    TOOLS,
    URL,
    WEATHER,
    ask,
    asking,
    prompt_of,
)
from tests.support.frontend_app import ANSWER, encode, engine_that_says
from tests.support.scripted_engine import ScriptedEngine

THOUGHT = "<think>the quick dog</think>Yes."


def engine_with_hits(text: str, cached_tokens: int, **settings: Any) -> ScriptedEngine:
    """An engine that has the beginning of every prompt in its cache."""
    engine = engine_that_says(text, **settings)
    submit = engine.submit

    def submit_cached(request: Any) -> Any:
        stream = submit(request)
        stream.cached_tokens = cached_tokens
        return stream

    engine.submit = submit_cached  # type: ignore[method-assign]
    return engine


async def test_an_answer_has_anthropics_shape() -> None:
    engine = engine_that_says(ANSWER)
    async with asking(engine) as client:
        message = await ask(client)
    assert message.pop("id").startswith("msg_")
    assert message == {
        "type": "message",
        "role": "assistant",
        "model": "tiny",
        "content": [{"type": "text", "text": ANSWER}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": len(engine.submitted[0].prompt_token_ids),
            "output_tokens": len(encode(ANSWER)) + 1,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        },
    }


async def test_the_id_of_a_request_is_told_in_the_header_that_anthropics_clients_read() -> None:
    async with asking(engine_that_says(ANSWER)) as client:
        headers = {"X-Request-Id": "mine"}
        response = await client.post(URL, json=BODY, headers=headers)
    assert (response.headers["request-id"], response.headers["x-request-id"]) == ("mine", "mine")


async def test_tokens_found_in_the_cache_are_no_input_tokens() -> None:
    engine = engine_with_hits(ANSWER, 8)
    async with asking(engine) as client:
        usage = (await ask(client))["usage"]
    assert usage["cache_read_input_tokens"] == 8
    assert usage["input_tokens"] == len(engine.submitted[0].prompt_token_ids) - 8


async def test_an_empty_answer_has_no_blocks() -> None:
    async with asking(engine_that_says("")) as client:
        message = await ask(client)
    assert message["content"] == []
    assert message["stop_reason"] == "end_turn"


async def test_the_reason_is_the_limit_where_it_ended_the_answer() -> None:
    async with asking(engine_that_says(ANSWER)) as client:
        message = await ask(client, max_tokens=3)
    assert message["stop_reason"] == "max_tokens"
    assert message["usage"]["output_tokens"] == 3


async def test_a_stop_sequence_is_named_and_its_text_is_cut() -> None:
    async with asking(engine_that_says(ANSWER)) as client:
        message = await ask(client, stop_sequences=["nowhere", "How"])
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "How")
    assert message["content"] == [{"type": "text", "text": "Hello there! "}]


async def test_calls_are_blocks_after_the_text() -> None:
    async with asking(engine_that_says(f"I look. {WEATHER}\n{NOW}")) as client:
        message = await ask(client, tools=TOOLS)
    text, weather, now = message["content"]
    assert text == {"type": "text", "text": "I look. "}
    assert weather["id"].startswith("toolu_")
    assert (weather["name"], weather["input"]) == ("weather", {"city": "Köln"})
    assert (now["type"], now["name"], now["input"]) == ("tool_use", "now", {})
    assert message["stop_reason"] == "tool_use"


async def test_only_one_call_is_told_where_parallel_use_is_disabled() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    async with asking(engine_that_says(f"{WEATHER}\n{NOW}")) as client:
        message = await ask(client, tools=TOOLS, tool_choice=choice)
    assert [block["name"] for block in message["content"]] == ["weather"]


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ({"type": "any"}, '[{"name": "weather", "parameters": ' + ARGUMENTS + "}]"),
        ({"type": "tool", "name": "weather"}, ARGUMENTS),
    ],
)
async def test_a_forced_call_is_held_to_a_grammar(choice: dict[str, str], text: str) -> None:
    engine = engine_that_says(text)
    async with asking(engine) as client:
        message = await ask(client, tools=TOOLS, tool_choice=choice)
    [block] = message["content"]
    assert (block["name"], block["input"]) == ("weather", {"city": "Köln"})
    assert message["stop_reason"] == "tool_use"
    assert engine.submitted[0].sampling.grammar


async def test_calls_stay_text_where_none_may_be_made() -> None:
    async with asking(engine_that_says(WEATHER)) as client:
        message = await ask(client, tools=TOOLS, tool_choice={"type": "none"})
    assert message["content"] == [{"type": "text", "text": WEATHER}]
    assert message["stop_reason"] == "end_turn"


async def test_a_call_that_is_cut_off_has_what_is_whole_of_its_input() -> None:
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln", "day": "tomorrow"}}'
    async with asking(engine_that_says(call)) as client:
        message = await ask(client, tools=TOOLS, max_tokens=len(encode(call)) - 5)
    assert message["stop_reason"] == "max_tokens"
    assert message["content"][0]["input"] == {"city": "Köln"}


async def test_a_tools_call_and_its_result_go_back_into_the_prompt() -> None:
    engine = engine_that_says("It is warm.")
    messages = [
        {"role": "user", "content": "How warm is it?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Köln"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "12 °C"}],
                    "cache_control": {"type": "ephemeral"},
                },
                {"type": "text", "text": "And?"},
            ],
        },
    ]
    async with asking(engine) as client:
        await ask(
            client, messages=messages, tools=TOOLS, system=[{"type": "text", "text": "Be kind"}]
        )
    prompt = prompt_of(engine)
    assert "<|im_start|>system\nBe kind<|im_end|>" in prompt
    assert f"<|im_start|>assistant\nI look.<call>weather({ARGUMENTS})<|im_end|>" in prompt
    assert "<|im_start|>tool\n12 °C<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>" in prompt
    assert prompt.endswith("<|im_start|>assistant\n")


async def test_a_last_turn_of_the_assistants_is_continued() -> None:
    engine = engine_that_says("ere")
    messages = [*BODY["messages"], {"role": "assistant", "content": "Hello th"}]
    async with asking(engine) as client:
        message = await ask(client, messages=messages)
    assert prompt_of(engine).endswith("<|im_start|>assistant\nHello th")
    assert message["content"] == [{"type": "text", "text": "ere"}]


async def test_reasoning_is_a_block_of_its_own() -> None:
    async with asking(engine_that_says(THOUGHT), reasoning_parser="think") as client:
        message = await ask(client)
    thinking, text = message["content"]
    assert thinking == {"type": "thinking", "thinking": "the quick dog", "signature": ""}
    assert text == {"type": "text", "text": "Yes."}
    num_tokens = len(encode(THOUGHT.removesuffix("Yes.")))
    assert message["usage"]["output_tokens_details"] == {"thinking_tokens": num_tokens}


@pytest.mark.parametrize(
    ("thinking", "shown", "kinds"),
    [
        (None, "", ["thinking", "text"]),
        ({"type": "adaptive"}, "", ["thinking", "text"]),
        ({"type": "adaptive", "display": "omitted"}, "", ["text"]),
        (
            {"type": "enabled", "budget_tokens": 1024},
            "thinks: True True",
            ["thinking", "text"],
        ),
        ({"type": "disabled"}, "thinks: False False", ["text"]),
    ],
)
async def test_thinking_is_told_to_the_template_and_shown_if_wanted(
    thinking: Any, shown: str, kinds: list[str]
) -> None:
    engine = engine_that_says(THOUGHT)
    async with asking(engine, reasoning_parser="think") as client:
        message = await ask(client, thinking=thinking)
    assert [block["type"] for block in message["content"]] == kinds
    assert prompt_of(engine).startswith(shown or "<|im_start|>")


async def test_an_answer_can_be_held_to_a_schema_and_effort_is_told_to_the_template() -> None:
    engine = engine_that_says(ARGUMENTS)
    config = {"format": {"type": "json_schema", "schema": CITY}, "effort": "low"}
    async with asking(engine) as client:
        message = await ask(client, output_config=config)
    assert message["content"] == [{"type": "text", "text": ARGUMENTS}]
    assert engine.submitted[0].sampling.grammar
    assert prompt_of(engine).startswith("effort: low")


async def test_what_else_is_asked_reaches_the_engine() -> None:
    engine = engine_that_says("Hello")
    async with asking(engine) as client:
        await ask(
            client, temperature=0.5, top_p=0.9, top_k=7, seed=3, priority=2, cache_salt="mine",
            data_parallel_rank=1, metadata={"user_id": "u"}, service_tier="auto",
        )  # fmt: skip
    [request] = engine.submitted
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 7)
    assert (sampling.seed, sampling.max_tokens) == (3, 500)
    assert (request.priority, request.cache_salt, request.pinned_rank) == (2, "mine", 1)
