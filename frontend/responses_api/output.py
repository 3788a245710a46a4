"""The output of a response, as it is written."""

from collections.abc import Callable, Sequence

from frontend.openai.responses import ChatLogprob
from frontend.responses_api.events import Event
from frontend.responses_api.objects import ItemStatus, OutputItem
from frontend.responses_api.open_items import OpenCall, OpenItem, OpenMessage, OpenReasoning
from frontend.responses_api.pending_logprobs import PendingLogprobs
from frontend.tools.pieces import CallArguments, CallBegins, ContentPiece, Piece, ReasoningPiece


class Output:
    """Turns pieces into items, one after the other, and tells each step as events."""

    def __init__(self, new_call_id: Callable[[], str]) -> None:
        self._new_call_id = new_call_id
        self._done: list[OutputItem] = []
        self._open: OpenItem | None = None
        self._logprobs = PendingLogprobs()

    @property
    def items(self) -> list[OutputItem]:
        """All items; the last is incomplete as long as it has not ended."""
        unfinished = [] if self._open is None else [self._open.item("incomplete")]
        return [*self._done, *unfinished]

    def push(
        self, pieces: Sequence[Piece], logprobs: Sequence[ChatLogprob], num_reasoning_tokens: int
    ) -> list[Event]:
        """Add what the tokens with these log probabilities have made certain.

        Those of reasoning, which is the answer's first so many tokens, and of calls are told nowhere.
        """
        self._logprobs.add(logprobs, num_reasoning_tokens)
        return [event for piece in pieces for event in self._add(piece)]

    def finish(self, status: ItemStatus) -> list[Event]:
        """End the last item with this status; an answer of nothing is a message without text."""
        events = [] if self._done or self._open is not None else self._message()[1]
        logprobs = self._logprobs.take()
        if isinstance(self._open, OpenMessage) and logprobs:
            events.append(self._open.add("", logprobs))
        return events + self._end(status)

    def _add(self, piece: Piece) -> list[Event]:
        match piece:
            case ContentPiece(text):
                message, events = self._message()
                return [*events, message.add(text, self._logprobs.take())]
            case ReasoningPiece(text):
                reasoning, events = self._reasoning()
                return [*events, reasoning.add(text)]
            case CallBegins(_, name):
                return self._begin(OpenCall(self._next_index, self._new_call_id(), name))
            case CallArguments(_, text):
                self._logprobs.drop()
                assert isinstance(self._open, OpenCall), self._open
                return [self._open.add(text)]

    def _message(self) -> tuple[OpenMessage, list[Event]]:
        if isinstance(self._open, OpenMessage):
            return self._open, []
        message = OpenMessage(self._next_index)
        return message, self._begin(message)

    def _reasoning(self) -> tuple[OpenReasoning, list[Event]]:
        if isinstance(self._open, OpenReasoning):
            return self._open, []
        reasoning = OpenReasoning(self._next_index)
        return reasoning, self._begin(reasoning)

    @property
    def _next_index(self) -> int:
        return len(self._done) + (self._open is not None)

    def _begin(self, item: OpenItem) -> list[Event]:
        events = self._end("completed")
        self._open = item
        return events + item.begin()

    def _end(self, status: ItemStatus) -> list[Event]:
        if self._open is None:
            return []
        ended, self._open = self._open, None
        self._done.append(ended.item(status))
        return ended.end(status)
