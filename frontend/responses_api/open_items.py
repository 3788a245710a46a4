"""Output items while they are being written, each with the events that tell of it."""

import secrets
from collections.abc import Sequence
from typing import Protocol

from frontend.openai.responses import ChatLogprob
from frontend.responses_api.events import (
    ArgumentsDelta,
    ArgumentsDone,
    Event,
    ItemAdded,
    ItemDone,
    PartAdded,
    PartDone,
    ReasoningDelta,
    ReasoningDone,
    TextDelta,
    TextDone,
)
from frontend.responses_api.objects import (
    ItemStatus,
    OutputFunctionCall,
    OutputItem,
    OutputMessage,
    OutputReasoning,
    OutputText,
    ReasoningText,
)


class OpenItem(Protocol):
    """An item at a place of the output. Events hold copies: they do not change with the item."""

    def begin(self) -> list[Event]:
        """The events that tell that it begins."""
        ...

    def end(self, status: ItemStatus) -> list[Event]:
        """The events that tell that it has ended."""
        ...

    def item(self, status: ItemStatus) -> OutputItem:
        """The item as far as it goes."""
        ...


class OpenMessage:
    """Text for the reader."""

    def __init__(self, output_index: int) -> None:
        self._index = output_index
        self._id = _new_id("msg")
        self._texts: list[str] = []
        self._logprobs: list[ChatLogprob] = []

    def begin(self) -> list[Event]:
        """A message without parts, and its only part without text."""
        item = OutputMessage(id=self._id, status="in_progress", content=[])
        return [
            ItemAdded(output_index=self._index, item=item),
            PartAdded(item_id=self._id, output_index=self._index, part=OutputText(text="")),
        ]

    def add(self, text: str, logprobs: Sequence[ChatLogprob]) -> Event:
        """More text, with what is known of its tokens."""
        self._texts.append(text)
        self._logprobs += logprobs
        return TextDelta(
            item_id=self._id, output_index=self._index, delta=text, logprobs=list(logprobs)
        )

    def end(self, status: ItemStatus) -> list[Event]:
        """The text, the part and the message, each whole."""
        part = self._part()
        return [
            TextDone(
                item_id=self._id,
                output_index=self._index,
                text=part.text,
                logprobs=part.logprobs,
            ),
            PartDone(item_id=self._id, output_index=self._index, part=part),
            ItemDone(output_index=self._index, item=self.item(status)),
        ]

    def item(self, status: ItemStatus) -> OutputMessage:
        """The message as far as it goes."""
        return OutputMessage(id=self._id, status=status, content=[self._part()])

    def _part(self) -> OutputText:
        return OutputText(text="".join(self._texts), logprobs=list(self._logprobs))


class OpenReasoning:
    """What the model thinks aloud."""

    def __init__(self, output_index: int) -> None:
        self._index = output_index
        self._id = _new_id("rs")
        self._texts: list[str] = []

    def begin(self) -> list[Event]:
        """An item without parts, and its only part without text."""
        item = OutputReasoning(id=self._id, status="in_progress", content=[])
        return [
            ItemAdded(output_index=self._index, item=item),
            PartAdded(item_id=self._id, output_index=self._index, part=ReasoningText(text="")),
        ]

    def add(self, text: str) -> Event:
        """More reasoning."""
        self._texts.append(text)
        return ReasoningDelta(item_id=self._id, output_index=self._index, delta=text)

    def end(self, status: ItemStatus) -> list[Event]:
        """The text, the part and the item, each whole."""
        part = self._part()
        return [
            ReasoningDone(item_id=self._id, output_index=self._index, text=part.text),
            PartDone(item_id=self._id, output_index=self._index, part=part),
            ItemDone(output_index=self._index, item=self.item(status)),
        ]

    def item(self, status: ItemStatus) -> OutputReasoning:
        """The reasoning as far as it goes."""
        return OutputReasoning(id=self._id, status=status, content=[self._part()])

    def _part(self) -> ReasoningText:
        return ReasoningText(text="".join(self._texts))


class OpenCall:
    """A call of a function."""

    def __init__(self, output_index: int, call_id: str, name: str) -> None:
        self._index = output_index
        self._id = _new_id("fc")
        self._call_id = call_id
        self._name = name
        self._texts: list[str] = []

    def begin(self) -> list[Event]:
        """The call by its name, its arguments empty."""
        return [ItemAdded(output_index=self._index, item=self.item("in_progress"))]

    def add(self, text: str) -> Event:
        """More of the arguments."""
        self._texts.append(text)
        return ArgumentsDelta(item_id=self._id, output_index=self._index, delta=text)

    def end(self, status: ItemStatus) -> list[Event]:
        """The arguments and the call, each whole."""
        item = self.item(status)
        return [
            ArgumentsDone(
                item_id=self._id,
                output_index=self._index,
                name=self._name,
                arguments=item.arguments,
            ),
            ItemDone(output_index=self._index, item=item),
        ]

    def item(self, status: ItemStatus) -> OutputFunctionCall:
        """The call as far as it goes."""
        return OutputFunctionCall(
            id=self._id,
            status=status,
            call_id=self._call_id,
            name=self._name,
            arguments="".join(self._texts),
        )


def _new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(12)}"
