"""One choice's message as it comes in."""

from cluster.wire.sampling import FinishReason
from frontend.output_processor import ChoiceDelta
from frontend.reasoning.reasoning_tokens import ReasoningTokens
from frontend.tokenizer import Tokenizer
from frontend.tools.message_format import MessageFormat
from frontend.tools.pieces import CallBegins, Piece, joined


class ChoiceMessage:
    """Takes the text of one choice apart, and knows what it has had of calls and reasoning."""

    def __init__(
        self, message_format: MessageFormat, tokenizer: Tokenizer, prompt_token_ids: list[int]
    ) -> None:
        self._format = message_format
        self._parser = message_format.new_parser()
        self._has_calls = False
        self._reasoning_tokens = (
            None
            if message_format.new_reasoning_parser is None
            else ReasoningTokens(tokenizer, prompt_token_ids, message_format.new_reasoning_parser())
        )

    @property
    def num_reasoning_tokens(self) -> int | None:
        """So far; None where reasoning is not told apart."""
        return None if self._reasoning_tokens is None else self._reasoning_tokens.num_tokens

    def push(self, delta: ChoiceDelta) -> list[Piece]:
        """What is certain with this delta; with the last one, everything."""
        if self._reasoning_tokens is not None:
            self._reasoning_tokens.push(delta.token_ids)
        pieces = self._parser.feed(delta.text)
        if delta.finish_reason is not None:
            pieces = joined([*pieces, *self._parser.finish()])
        self._has_calls = self._has_calls or any(isinstance(p, CallBegins) for p in pieces)
        return pieces

    def finish_label(self, delta: ChoiceDelta) -> str | None:
        """Why the choice ended, as OpenAI's API says it. Calls that were cut off ended by length."""
        if self._has_calls and delta.finish_reason is FinishReason.STOP:
            return self._format.finish_label
        return delta.finish_label
