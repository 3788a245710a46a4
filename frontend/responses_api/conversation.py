"""Input items to the messages of a chat."""

from typing import Any

import msgspec

from cluster.errors import InvalidRequest
from frontend.openai.schemas import ChatMessage, ContentPart, ToolCall, ToolFunction
from frontend.responses_api.schemas import (
    FunctionCallItem,
    FunctionCallOutputItem,
    InputPart,
    MessageItem,
    ReasoningItem,
)
from frontend.responses_api.typed_fields import checked_type, convert_part

Item = MessageItem | FunctionCallItem | FunctionCallOutputItem | ReasoningItem

_ITEM_TYPES: dict[str, type[Item]] = {
    "message": MessageItem,
    "function_call": FunctionCallItem,
    "function_call_output": FunctionCallOutputItem,
    "reasoning": ReasoningItem,
}
_TEXT_PARTS = ("input_text", "output_text", "text", "reasoning_text", "summary_text")


class Conversation:
    """Collects the messages that items make up.

    Reasoning, text and calls that follow each other are one turn of the assistant's, as templates expect.
    """

    def __init__(self) -> None:
        self.messages: list[ChatMessage] = []
        self._turn: ChatMessage | None = None
        """The assistant's turn that the last item belongs to."""

    def add(self, fields: dict[str, Any], path: str) -> None:
        """Add the item at `path`. Raises InvalidRequest naming what of it cannot be used."""
        # OpenAI's "easy" messages have no type.
        has_type = fields.get("type") is not None
        kind = checked_type(fields, _ITEM_TYPES, path) if has_type else "message"
        item = convert_part(fields, _ITEM_TYPES[kind], path)
        match item:
            case MessageItem(role="assistant"):
                self._add_text(_content(item.content, f"{path}.content"))
            case MessageItem(role=role):
                self._end_turn(
                    ChatMessage(role=role, content=_content(item.content, f"{path}.content"))
                )
            case ReasoningItem():
                self._add_reasoning(item, path)
            case FunctionCallItem():
                self._add_call(item, path)
            case FunctionCallOutputItem():
                output = _content(item.output, f"{path}.output")
                self._end_turn(ChatMessage(role="tool", content=output, tool_call_id=item.call_id))

    def _add_text(self, content: list[ContentPart]) -> None:
        turn = self._turn
        if turn is None or (turn.content is not None and not turn.tool_calls):
            turn = self._begin_turn()
        assert not isinstance(turn.content, str), turn
        turn.content = [*(turn.content or []), *content]

    def _add_reasoning(self, item: ReasoningItem, path: str) -> None:
        member = "content" if item.content else "summary"
        text = "".join(
            _part_text(part, f"{path}.{member}[{i}]")
            for i, part in enumerate(item.content or item.summary or [])
        )
        if text:  # what other servers have encrypted says nothing here
            self._begin_turn().reasoning_content = text

    def _add_call(self, item: FunctionCallItem, path: str) -> None:
        arguments = _arguments(item.arguments, f"{path}.arguments")
        function = ToolFunction(name=item.name, arguments=arguments)
        turn = self._turn or self._begin_turn()
        turn.tool_calls = [*(turn.tool_calls or []), ToolCall(id=item.call_id, function=function)]

    def _begin_turn(self) -> ChatMessage:
        self._turn = ChatMessage(role="assistant")
        self.messages.append(self._turn)
        return self._turn

    def _end_turn(self, message: ChatMessage) -> None:
        self._turn = None
        self.messages.append(message)


def read_conversation(
    instructions: str | None, items: str | list[dict[str, Any]]
) -> list[ChatMessage]:
    """The messages of a body. Raises InvalidRequest naming the item and what of it cannot be used."""
    conversation = Conversation()
    if instructions is not None:
        conversation.messages.append(ChatMessage(role="system", content=instructions))
    if isinstance(items, str):
        conversation.messages.append(ChatMessage(role="user", content=items))
        return conversation.messages
    if not items:
        raise InvalidRequest("input must not be empty", "input")
    for index, item in enumerate(items):
        conversation.add(item, f"input[{index}]")
    return conversation.messages


def _content(content: str | list[InputPart], path: str) -> list[ContentPart]:
    if isinstance(content, str):
        return [ContentPart(text=content)]
    return [ContentPart(text=_part_text(part, f"{path}[{i}]")) for i, part in enumerate(content)]


def _part_text(part: InputPart, path: str) -> str:
    if part.type not in (*_TEXT_PARTS, "refusal"):
        raise InvalidRequest(
            f"{path}.type: {part.type!r} is not supported by this server, only text", f"{path}.type"
        )
    name = "refusal" if part.type == "refusal" else "text"
    text = part.refusal if part.type == "refusal" else part.text
    if text is None:
        raise InvalidRequest(f"{path}.{name} is required", f"{path}.{name}")
    return text


def _arguments(text: str, path: str) -> dict[str, Any]:
    """The arguments of a call; an empty text is none, as of functions without parameters."""
    try:
        return msgspec.json.decode(text.encode() or b"{}", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"{path} is not a JSON object: {error}", path) from error
