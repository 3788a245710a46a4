"""Turns made of blocks to chat messages."""

from typing import NoReturn

from cluster.errors import InvalidRequest
from frontend.anthropic.blocks import (
    RedactedThinkingBlock,
    RequestBlock,
    TextBlock,
    TextPart,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from frontend.anthropic.schemas import Turn
from frontend.openai.schemas import ChatMessage, ContentPart, ToolCall, ToolFunction


def chat_messages(system: str | list[TextPart] | None, turns: list[Turn]) -> list[ChatMessage]:
    """The conversation, the system prompt first, with neighbours of one role made one.

    Each result of a tool becomes a message of its own. Raises InvalidRequest naming a block that its
    role cannot have, and a last turn that ends in a call.
    """
    messages = [] if system is None else [ChatMessage(role="system", content=_parts(system))]
    tool_names: dict[str, str] = {}
    for index, turn in enumerate(turns):
        for message in _messages_of(turn, f"messages[{index}]", tool_names):
            _add(messages, message)
    if messages[-1].role == "assistant" and messages[-1].tool_calls:
        path = f"messages[{len(turns) - 1}]"
        raise InvalidRequest(
            f"{path}: a tool_result must follow a tool_use, so it cannot be in the last message",
            path,
        )
    return messages


def _messages_of(turn: Turn, path: str, tool_names: dict[str, str]) -> list[ChatMessage]:
    content = turn.content
    blocks: list[RequestBlock] = [TextBlock(text=content)] if isinstance(content, str) else content
    if turn.role == "assistant":
        return [_assistant_message(blocks, path, tool_names)]
    messages: list[ChatMessage] = []
    for index, block in enumerate(blocks):
        if isinstance(block, TextBlock):
            _add(messages, ChatMessage(role=turn.role, content=[ContentPart(text=block.text)]))
        elif isinstance(block, ToolResultBlock) and turn.role == "user":
            messages.append(_tool_message(block, tool_names))
        else:
            _refuse(block, turn.role, f"{path}.content[{index}]")
    return messages or [ChatMessage(role=turn.role, content=[])]


def _assistant_message(
    blocks: list[RequestBlock], path: str, tool_names: dict[str, str]
) -> ChatMessage:
    parts: list[ContentPart] = []
    calls: list[ToolCall] = []
    thoughts: list[str] = []
    for index, block in enumerate(blocks):
        match block:
            case TextBlock():
                parts.append(ContentPart(text=block.text))
            case ThinkingBlock():
                thoughts.append(block.thinking)
            case RedactedThinkingBlock():
                pass
            case ToolUseBlock():
                tool_names[block.id] = block.name
                function = ToolFunction(name=block.name, arguments=block.input)
                calls.append(ToolCall(id=block.id, function=function))
            case ToolResultBlock():
                _refuse(block, "assistant", f"{path}.content[{index}]")
    return ChatMessage(
        role="assistant",
        content=parts,
        tool_calls=calls or None,
        reasoning_content="\n".join(thoughts) if thoughts else None,
    )


def _tool_message(block: ToolResultBlock, tool_names: dict[str, str]) -> ChatMessage:
    parts = _parts(block.content or "")
    if block.is_error:
        # Chat templates have no other place to say so.
        parts.insert(0, ContentPart(text="The tool failed."))
    return ChatMessage(
        role="tool",
        content=parts,
        tool_call_id=block.tool_use_id,
        name=tool_names.get(block.tool_use_id),
    )


def _add(messages: list[ChatMessage], message: ChatMessage) -> None:
    """Append the message, or add it to the last one: many templates want roles to take turns."""
    last = messages[-1] if messages else None
    if last is None or last.role != message.role or message.role == "tool":
        messages.append(message)
        return
    thoughts = [text for text in (last.reasoning_content, message.reasoning_content) if text]
    messages[-1] = ChatMessage(
        role=last.role,
        content=[*_parts_of(last), *_parts_of(message)],
        tool_calls=[*(last.tool_calls or []), *(message.tool_calls or [])] or None,
        reasoning_content="\n".join(thoughts) if thoughts else None,
    )


def _parts_of(message: ChatMessage) -> list[ContentPart]:
    assert isinstance(message.content, list), message
    return message.content


def _parts(content: str | list[TextPart]) -> list[ContentPart]:
    texts = [content] if isinstance(content, str) else [block.text for block in content]
    return [ContentPart(text=text) for text in texts]


def _refuse(block: RequestBlock, role: str, path: str) -> NoReturn:
    kind = block.__struct_config__.tag
    raise InvalidRequest(
        f"{path}.type: a message of the {role} cannot have a block of type {kind!r}", f"{path}.type"
    )
