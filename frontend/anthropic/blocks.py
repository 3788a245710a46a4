"""The blocks that turns are made of, in requests and in answers alike."""

from typing import Any, Literal

import msgspec


class TextBlock(msgspec.Struct, kw_only=True, tag_field="type", tag="text"):
    """Some text."""

    text: str


class TextPart(msgspec.Struct, kw_only=True):
    """Some text, where there can be no other block. A tag, unlike a field, could be left out there."""

    type: Literal["text"]
    text: str


class ThinkingBlock(msgspec.Struct, kw_only=True, tag_field="type", tag="thinking"):
    """Some of the model's reasoning."""

    thinking: str
    signature: str = ""
    """Always empty in answers, and not looked at in requests: no reasoning is hidden here."""


class RedactedThinkingBlock(
    msgspec.Struct, kw_only=True, tag_field="type", tag="redacted_thinking"
):
    """Reasoning that another server made unreadable; left out of the prompt."""

    data: str


class ToolUseBlock(msgspec.Struct, kw_only=True, tag_field="type", tag="tool_use"):
    """A tool that the model calls, with its input."""

    id: str
    name: str
    input: dict[str, Any]


class ToolResultBlock(msgspec.Struct, kw_only=True, tag_field="type", tag="tool_result"):
    """What a tool that was called has answered."""

    tool_use_id: str
    content: str | list[TextPart] | None = None
    is_error: bool | None = None


RequestBlock = TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock
AnswerBlock = TextBlock | ThinkingBlock | ToolUseBlock
