"""Chat messages as clients send them to messages as templates expect them."""

from typing import Any

import msgspec

from cluster.errors import InvalidRequest
from frontend.chat_template import Message
from frontend.openai.schemas import ChatMessage, ContentPart, ToolCall


def template_messages(messages: list[ChatMessage]) -> list[Message]:
    """The messages with their content as one text, null as none, and tool arguments decoded.

    Raises InvalidRequest naming the message and the part that cannot be used.
    """
    if not messages:
        raise InvalidRequest("messages must not be empty", "messages")
    return [_template_message(message, f"messages[{i}]") for i, message in enumerate(messages)]


def _template_message(message: ChatMessage, path: str) -> Message:
    # What a function answers is what a tool does, by its older name.
    role = "tool" if message.role == "function" else message.role
    adapted: Message = {"role": role, "content": _text(message.content, f"{path}.content")}
    for name in ("name", "tool_call_id", "reasoning_content"):
        value = getattr(message, name)
        if value is not None:
            adapted[name] = value
    calls = _template_tool_calls(message, path)
    if calls:
        adapted["tool_calls"] = calls
    return adapted


def _template_tool_calls(message: ChatMessage, path: str) -> list[dict[str, Any]]:
    """The calls of a turn, also one in the older form, which templates do not know."""
    if message.function_call is not None:
        if message.tool_calls:
            where = f"{path}.function_call"
            raise InvalidRequest(f"{where} and tool_calls exclude each other", where)
        call = ToolCall(function=message.function_call)
        return [_template_tool_call(call, f"{path}.function_call")]
    return [
        _template_tool_call(call, f"{path}.tool_calls[{i}].function")
        for i, call in enumerate(message.tool_calls or [])
    ]


def _text(content: str | list[ContentPart] | None, path: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(_part_text(part, f"{path}[{i}]") for i, part in enumerate(content))


def _part_text(part: ContentPart, path: str) -> str:
    if part.type == "text" and part.text is not None:
        return part.text
    if part.type == "refusal" and part.refusal is not None:
        return part.refusal
    if part.type in ("text", "refusal"):
        raise InvalidRequest(f"{path}.{part.type} is required", f"{path}.{part.type}")
    raise InvalidRequest(
        f"{path}: parts of type {part.type!r} are not supported, only text", f"{path}.type"
    )


def _template_tool_call(call: ToolCall, function_path: str) -> dict[str, Any]:
    arguments = call.function.arguments or {}
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments.encode(), type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError) as error:
            where = f"{function_path}.arguments"
            raise InvalidRequest(f"{where} is not a JSON object: {error}", where) from error
    return {
        "id": call.id,
        "type": call.type,
        "function": {"name": call.function.name, "arguments": arguments},
    }
