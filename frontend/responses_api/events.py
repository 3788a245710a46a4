"""The events of a stream, numbered and named."""

from collections.abc import Callable

import msgspec

from frontend.openai.errors import error_body
from frontend.openai.responses import ChatLogprob, ErrorBody, ErrorDetail
from frontend.openai.sse import named_event
from frontend.responses_api.objects import ContentPart, OutputItem, Response

_encoder = msgspec.json.Encoder()


class Event(msgspec.Struct, kw_only=True, tag_field="type"):
    """One event; its number is given when it is sent."""

    sequence_number: int = 0


class Created(Event, kw_only=True, tag="response.created"):
    """The first event."""

    response: Response


class InProgress(Event, kw_only=True, tag="response.in_progress"):
    """The second event."""

    response: Response


class Completed(Event, kw_only=True, tag="response.completed"):
    """The last event of a response that is whole."""

    response: Response


class Incomplete(Event, kw_only=True, tag="response.incomplete"):
    """The last event of a response that was cut."""

    response: Response


class Failed(Event, kw_only=True, tag="response.failed"):
    """What there is of a response that could not be ended; an error event follows."""

    response: Response


class ErrorEvent(Event, kw_only=True, tag="error"):
    """The last event of a response that failed.

    The official client passes on what OpenAI defines, and raises if there is an `error` in it.
    """

    code: str | None
    message: str
    param: str | None
    error: ErrorDetail


class ItemAdded(Event, kw_only=True, tag="response.output_item.added"):
    """An item begins, with nothing in it."""

    output_index: int
    item: OutputItem


class ItemDone(Event, kw_only=True, tag="response.output_item.done"):
    """An item is whole."""

    output_index: int
    item: OutputItem


class InItem(Event, kw_only=True):
    """Something about one item."""

    item_id: str
    output_index: int


class PartAdded(InItem, kw_only=True, tag="response.content_part.added"):
    """A part of an item begins, with nothing in it."""

    content_index: int = 0
    part: ContentPart


class PartDone(InItem, kw_only=True, tag="response.content_part.done"):
    """A part of an item is whole."""

    content_index: int = 0
    part: ContentPart


class TextDelta(InItem, kw_only=True, tag="response.output_text.delta"):
    """More text for the reader, with the log probabilities of its tokens if they were asked for."""

    content_index: int = 0
    delta: str
    logprobs: list[ChatLogprob]


class TextDone(InItem, kw_only=True, tag="response.output_text.done"):
    """The whole text of a message."""

    content_index: int = 0
    text: str
    logprobs: list[ChatLogprob]


class ReasoningDelta(InItem, kw_only=True, tag="response.reasoning_text.delta"):
    """More reasoning."""

    content_index: int = 0
    delta: str


class ReasoningDone(InItem, kw_only=True, tag="response.reasoning_text.done"):
    """The whole reasoning."""

    content_index: int = 0
    text: str


class ArgumentsDelta(InItem, kw_only=True, tag="response.function_call_arguments.delta"):
    """More of the arguments' JSON text."""

    delta: str


class ArgumentsDone(InItem, kw_only=True, tag="response.function_call_arguments.done"):
    """The whole JSON text of the arguments."""

    name: str
    arguments: str


class ResponseEvents:
    """Events with names, numbered from 0 in the order in which they are sent.

    `failed` makes the response that tells of an error, in these words.
    """

    waiting = b": waiting\n\n"
    done = b""

    def __init__(self, failed: Callable[[str], Response]) -> None:
        self._failed = failed
        self._num_sent = 0

    def event(self, chunk: msgspec.Struct) -> bytes:
        """One event that carries the chunk, which must be an `Event`."""
        assert isinstance(chunk, Event), type(chunk)
        chunk.sequence_number = self._num_sent
        self._num_sent += 1
        return named_event(str(chunk.__struct_config__.tag), _encoder.encode(chunk))

    def error(self, error: Exception) -> bytes:
        """The failed response, and the error in the shape that the official client raises."""
        detail = msgspec.json.decode(error_body(error), type=ErrorBody).error
        failed = Failed(response=self._failed(detail.message))
        told = ErrorEvent(
            code=detail.code, message=detail.message, param=detail.param, error=detail
        )
        return self.event(failed) + self.event(told)
