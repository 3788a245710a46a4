"""Turns made of blocks to chat messages."""

import pytest

from cluster.errors import InvalidRequest
from frontend.anthropic.blocks import (
    RedactedThinkingBlock,
    TextBlock,
    TextPart,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from frontend.anthropic.schemas import Turn
from frontend.anthropic.turns import chat_messages
from frontend.openai.schemas import ChatMessage, ContentPart, ToolCall, ToolFunction

USE = ToolUseBlock(id="t1", name="f", input={"a": 1})
RESULT = ToolResultBlock(tool_use_id="t1", content="42")


def text(*lines: str) -> list[ContentPart]:
    return [ContentPart(text=line) for line in lines]


def test_the_system_prompt_comes_first() -> None:
    system = [TextPart(type="text", text=words) for words in ("Be kind", "and brief")]
    messages = chat_messages(system, [Turn(role="user", content="Hi")])
    assert messages == [
        ChatMessage(role="system", content=text("Be kind", "and brief")),
        ChatMessage(role="user", content=text("Hi")),
    ]


def test_neighbours_of_one_role_become_one() -> None:
    turns = [
        Turn(role="user", content="a"),
        Turn(role="user", content=[TextBlock(text="b")]),
        Turn(role="assistant", content=[ThinkingBlock(thinking="hm"), TextBlock(text="c")]),
        Turn(role="assistant", content=[ThinkingBlock(thinking="so"), TextBlock(text="d")]),
    ]
    assert chat_messages(None, turns) == [
        ChatMessage(role="user", content=text("a", "b")),
        ChatMessage(role="assistant", content=text("c", "d"), reasoning_content="hm\nso"),
    ]


def test_a_call_and_its_result_are_an_assistants_and_a_tools_message() -> None:
    turns = [
        Turn(role="user", content="Hi"),
        Turn(role="assistant", content=[USE]),
        Turn(role="user", content=[RESULT, TextBlock(text="And?")]),
    ]
    call = ToolCall(id="t1", function=ToolFunction(name="f", arguments={"a": 1}))
    assert chat_messages(None, turns)[1:] == [
        ChatMessage(role="assistant", content=[], tool_calls=[call]),
        ChatMessage(role="tool", content=text("42"), tool_call_id="t1", name="f"),
        ChatMessage(role="user", content=text("And?")),
    ]


def test_results_stay_apart_and_a_failed_one_says_so() -> None:
    failed = ToolResultBlock(
        tool_use_id="t2", content=[TextPart(type="text", text="no such city")], is_error=True
    )
    messages = chat_messages(None, [Turn(role="user", content=[RESULT, failed])])
    assert messages == [
        ChatMessage(role="tool", content=text("42"), tool_call_id="t1"),
        ChatMessage(
            role="tool", content=text("The tool failed.", "no such city"), tool_call_id="t2"
        ),
    ]


def test_a_result_without_content_is_an_empty_text() -> None:
    [message] = chat_messages(
        None, [Turn(role="user", content=[ToolResultBlock(tool_use_id="t1")])]
    )
    assert message.content == text("")


def test_reasoning_that_cannot_be_read_is_left_out() -> None:
    turns = [
        Turn(role="assistant", content=[RedactedThinkingBlock(data="???"), TextBlock(text="Well")])
    ]
    assert chat_messages(None, turns) == [ChatMessage(role="assistant", content=text("Well"))]


@pytest.mark.parametrize(
    "block", [USE, ThinkingBlock(thinking="hm"), RedactedThinkingBlock(data="")]
)
def test_users_neither_call_nor_think(block: ToolUseBlock) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat_messages(None, [Turn(role="user", content=[TextBlock(text="Hi"), block])])
    assert caught.value.param == "messages[0].content[1].type"


def test_the_last_turn_is_no_call_even_with_text_behind_it() -> None:
    turns = [
        Turn(role="user", content="Hi"),
        Turn(role="assistant", content=[USE]),
        Turn(role="assistant", content="so"),
    ]
    with pytest.raises(InvalidRequest) as caught:
        chat_messages(None, turns)
    assert caught.value.param == "messages[2]"
