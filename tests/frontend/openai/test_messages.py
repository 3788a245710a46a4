"""Calls in earlier turns, in either form."""

from typing import Any

import pytest

from cluster.errors import InvalidRequest
from frontend.chat_template import Message
from frontend.openai.decoding import convert_body
from frontend.openai.messages import template_messages
from frontend.openai.schemas import ChatBody

CALL = {"name": "f", "arguments": '{"a": 1}'}


def adapted(*messages: Any) -> list[Message]:
    return template_messages(convert_body({"messages": messages}, ChatBody).messages)


def test_a_call_in_the_older_form_is_a_call_like_any_other() -> None:
    older, newer = adapted(
        {"role": "assistant", "content": None, "function_call": CALL},
        {"role": "assistant", "content": None, "tool_calls": [{"function": CALL}]},
    )
    assert older == newer
    assert older["tool_calls"][0]["function"] == {"name": "f", "arguments": {"a": 1}}


def test_its_answer_is_a_tools() -> None:
    [answer] = adapted({"role": "function", "name": "f", "content": "42"})
    assert answer == {"role": "tool", "name": "f", "content": "42"}


def test_no_call_is_nothing_to_show() -> None:
    nothing: list[dict[str, Any]] = [
        {},
        {"tool_calls": []},
        {"tool_calls": None, "function_call": None},
    ]
    for fields in nothing:
        [turn] = adapted({"role": "assistant", "content": "x", **fields})
        assert "tool_calls" not in turn


@pytest.mark.parametrize(
    ("turn", "param"),
    [
        ({"function_call": {"name": "f", "arguments": "["}}, "messages[0].function_call.arguments"),
        ({"function_call": {"name": "f", "arguments": "5"}}, "messages[0].function_call.arguments"),
        ({"function_call": CALL, "tool_calls": [{"function": CALL}]}, "messages[0].function_call"),
        (
            {"tool_calls": [{"function": CALL}, {"function": {"name": "f", "arguments": "["}}]},
            "messages[0].tool_calls[1].function.arguments",
        ),
    ],
)
def test_what_is_wrong_is_refused_by_the_name_of_its_field(turn: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        adapted({"role": "assistant", "content": None, **turn})
    assert caught.value.param == param
