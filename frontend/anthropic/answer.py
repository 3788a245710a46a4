"""Answers to Anthropic's message requests."""

from msgspec import UNSET

from cluster.wire.sampling import FinishReason
from frontend.anthropic.content import ContentStream, whole_content
from frontend.anthropic.events import ANTHROPIC_EVENTS
from frontend.anthropic.objects import (
    Event,
    Message,
    MessageEnded,
    MessageStarted,
    MessageStopped,
    OutputTokensDetails,
    Ping,
    StopDelta,
    StopReason,
    Usage,
)
from frontend.generation import Generation, IndexedDelta
from frontend.input_processor import PreparedRequest
from frontend.openai.usage import count_usage
from frontend.output_processor import ChoiceDelta
from frontend.tokenizer import Tokenizer
from frontend.tools.choice_message import ChoiceMessage
from frontend.tools.pieces import CallBegins


class MessageAnswer:
    """One message, whole or in events. Its usage is known with the first token, and told at once."""

    events = ANTHROPIC_EVENTS

    def __init__(self, prepared: PreparedRequest, tokenizer: Tokenizer) -> None:
        [request] = prepared.requests
        self._prepared = prepared
        self._format = prepared.message_format
        self._parts = ChoiceMessage(self._format, tokenizer, request.prompt_token_ids)
        self._content = ContentStream(self._format)
        self._has_begun = False

    def whole(self, generation: Generation, choices: list[ChoiceDelta]) -> Message:
        """The answer in one object."""
        [delta] = choices
        pieces = self._parts.push(delta)
        message = self._empty_message(generation)
        message.content = whole_content(pieces, self._format)
        has_calls = any(isinstance(piece, CallBegins) for piece in pieces)
        message.stop_reason, message.stop_sequence = _end(delta, has_calls)
        return message

    def chunks(self, generation: Generation, news: IndexedDelta) -> list[Event]:
        """The empty message first, then its blocks; with the last news, why it ended and the usage."""
        pieces = self._parts.push(news.delta)
        events: list[Event] = []
        if not self._has_begun:
            self._has_begun = True
            events += [MessageStarted(self._empty_message(generation)), Ping()]
        for piece in pieces:
            events += self._content.push(piece)
        if news.delta.finish_reason is not None:
            reason, sequence = _end(news.delta, self._content.has_calls)
            delta = StopDelta(stop_reason=reason, stop_sequence=sequence)
            events += self._content.stop()
            events.append(MessageEnded(delta=delta, usage=self._usage(generation)))
        return events

    def last_chunks(self, _: Generation) -> list[Event]:
        """The end of the message."""
        return [MessageStopped()]

    def _empty_message(self, generation: Generation) -> Message:
        _, _, unique = self._prepared.response_id.partition("-")
        return Message(
            id=f"msg_{unique}",
            model=self._prepared.model,
            content=[],
            stop_reason=None,
            stop_sequence=None,
            usage=self._usage(generation),
        )

    def _usage(self, generation: Generation) -> Usage:
        usage = count_usage(self._prepared, generation)
        cached_tokens = usage.prompt_tokens_details.cached_tokens
        num_thinking = self._parts.num_reasoning_tokens
        return Usage(
            input_tokens=usage.prompt_tokens - cached_tokens,
            output_tokens=usage.completion_tokens,
            cache_read_input_tokens=cached_tokens,
            output_tokens_details=(
                UNSET if num_thinking is None else OutputTokensDetails(num_thinking)
            ),
        )


def _end(delta: ChoiceDelta, has_calls: bool) -> tuple[StopReason, str | None]:
    """Why the answer ended, and the stop string that ended it, if one did."""
    if delta.finish_reason is FinishReason.LENGTH:
        return "max_tokens", None
    if isinstance(delta.stop_reason, str):
        return "stop_sequence", delta.stop_reason
    return ("tool_use" if has_calls else "end_turn"), None
