"""Input items to messages."""

from typing import Any

import pytest

from cluster.errors import InvalidRequest
from frontend.openai.messages import template_messages
from frontend.responses_api.conversation import read_conversation

USER: dict[str, Any] = {"role": "user", "content": "Hi"}
CALL: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "now",
    "arguments": '{"a": 1}',
    "status": "completed",
}
OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "call_1", "output": "noon"}
THOUGHT: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "Well."}],
}
ANSWER: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Yes.", "annotations": [], "logprobs": []}],
}
CALLED = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": {"a": 1}}}


def read(items: str | list[dict[str, Any]], instructions: str | None = None) -> list[Any]:
    """The messages as templates get them."""
    return template_messages(read_conversation(instructions, items))


def wrong(*items: dict[str, Any]) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        read_conversation(None, list(items))
    assert caught.value.param is not None
    assert caught.value.message.startswith(caught.value.param)
    return caught.value


def test_a_text_is_a_users_turn() -> None:
    assert read("Hi") == [{"role": "user", "content": "Hi"}]


def test_instructions_come_first() -> None:
    assert read([USER], "Be kind.") == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
    ]


@pytest.mark.parametrize("role", ["user", "system", "developer", "assistant"])
@pytest.mark.parametrize("content", ["Hi", [{"type": "input_text", "text": "Hi"}]])
def test_messages_need_no_type(role: str, content: Any) -> None:
    for extra in ({}, {"type": None}, {"type": "message"}):
        assert read([{"role": role, "content": content, **extra}]) == [
            {"role": role, "content": "Hi"}
        ]


def test_parts_are_lines_of_one_text() -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "refusal", "refusal": "b"}]
    assert read([{"role": "user", "content": parts}]) == [{"role": "user", "content": "a\nb"}]


def test_reasoning_text_and_calls_are_one_turn() -> None:
    assert read([USER, THOUGHT, ANSWER, CALL, CALL, OUTPUT]) == [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": "Yes.",
            "reasoning_content": "Well.",
            "tool_calls": [CALLED, CALLED],
        },
        {"role": "tool", "content": "noon", "tool_call_id": "call_1"},
    ]


def test_text_behind_a_call_stays_in_its_turn_so_that_the_output_follows_the_call() -> None:
    [turn, output] = read([ANSWER, CALL, ANSWER, OUTPUT])
    assert (turn["content"], turn["tool_calls"]) == ("Yes.\nYes.", [CALLED])
    assert output["role"] == "tool"


def test_two_messages_without_calls_are_two_turns() -> None:
    assert [turn["content"] for turn in read([ANSWER, ANSWER])] == ["Yes.", "Yes."]


def test_reasoning_begins_a_turn() -> None:
    turns = read([CALL, THOUGHT, CALL])
    assert [turn.get("reasoning_content") for turn in turns] == [None, "Well."]


def test_an_output_ends_a_turn() -> None:
    roles = [turn["role"] for turn in read([CALL, OUTPUT, CALL, OUTPUT, ANSWER])]
    assert roles == ["assistant", "tool", "assistant", "tool", "assistant"]


def test_a_summary_stands_for_reasoning_that_is_not_there() -> None:
    summary = [{"type": "summary_text", "text": "In short."}]
    [turn] = read([{"type": "reasoning", "summary": summary}])
    assert turn["reasoning_content"] == "In short."


def test_encrypted_reasoning_says_nothing() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": "abc"}
    assert read([USER, item]) == [{"role": "user", "content": "Hi"}]


def test_outputs_may_have_parts_and_calls_no_arguments() -> None:
    output = {**OUTPUT, "output": [{"type": "input_text", "text": "noon"}]}
    [turn, answer] = read([{**CALL, "arguments": ""}, output])
    assert turn["tool_calls"][0]["function"]["arguments"] == {}
    assert answer["content"] == "noon"


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"role": "user"}, "input[1].content"),
        ({"content": "Hi"}, "input[1].role"),
        ({"role": "tool", "content": "Hi"}, "input[1].role"),
        ({"role": "user", "content": 5}, "input[1].content"),
        ({"role": "user", "content": [{"text": "Hi"}]}, "input[1].content[0].type"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input[1].content[0].text"),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": "x"}]},
            "input[1].content[0].type",
        ),
        ({"type": "item_reference", "id": "msg_1"}, "input[1].type"),
        ({"type": "web_search_call", "action": {}}, "input[1].type"),
        ({"type": 5}, "input[1].type"),
        ({**CALL, "arguments": "{"}, "input[1].arguments"),
        ({**CALL, "arguments": "[]"}, "input[1].arguments"),
        ({**CALL, "call_id": None}, "input[1].call_id"),
        ({"type": "function_call_output", "output": "x"}, "input[1].call_id"),
        ({**OUTPUT, "output": [{"type": "input_file"}]}, "input[1].output[0].type"),
        ({"type": "reasoning", "content": [{"type": "x", "text": ""}]}, "input[1].content[0].type"),
    ],
)
def test_what_cannot_be_used_is_named(item: dict[str, Any], param: str) -> None:
    assert wrong(USER, item).param == param


def test_an_empty_input_is_refused() -> None:
    assert wrong().param == "input"
