"""One choice's tokens to what the client sees of them: text, logprobs, and why it ended."""

from collections import deque
from dataclasses import dataclass, field

import msgspec

from cluster.wire.sampling import FinishReason
from frontend.detokenizer import make_detokenizer
from frontend.logprobs import PositionLogprobs, read_logprobs
from frontend.request_stream import TokenBatch
from frontend.stop_strings import StopStrings
from frontend.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """What the client asked about the form of its answer."""

    stops: list[str] = field(default_factory=list)
    include_stop_in_text: bool = False
    skip_special_tokens: bool = True
    min_tokens: int = 0
    """Stop strings count only after as many tokens."""
    silent_stop_ids: frozenset[int] = frozenset()
    """Tokens that end an answer without being named as the reason: the model's own end."""
    is_prompt_only: bool = False
    """The client wants nothing generated; the one token that an engine must make is dropped."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A delivered token's log probabilities, and where its text begins in the answer."""

    position: PositionLogprobs
    text_offset: int


class ChoiceDelta(msgspec.Struct):
    """What one batch of tokens adds to a choice."""

    text: str = ""
    token_ids: list[int] = []
    logprobs: list[TokenLogprob] = []
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    """The stop token or stop string, where the client named one that ended the answer."""

    @property
    def finish_label(self) -> str | None:
        """Why it ended, as OpenAI's API says it; None if it goes on."""
        return None if self.finish_reason is None else self.finish_reason.label

    def extend(self, later: "ChoiceDelta") -> None:
        """Add what came after this."""
        self.text += later.text
        self.token_ids += later.token_ids
        self.logprobs += later.logprobs
        self.finish_reason = later.finish_reason
        self.stop_reason = later.stop_reason


class OutputProcessor:
    """Turns the batches of one choice into deltas; the same text however tokens are batched."""

    def __init__(
        self, tokenizer: Tokenizer, prompt_token_ids: list[int], options: OutputOptions
    ) -> None:
        self.num_output_tokens = 0
        """Tokens generated for the client, the one that completed a stop string included."""
        self.prompt_logprobs: list[PositionLogprobs] = []
        """From the prompt's second token on, as far as they have arrived."""
        self._options = options
        self._is_text_alone = not (options.stops or options.is_prompt_only)
        """Whether a batch within the answer brings its text, as far as nobody wants logprobs."""
        self._detokenizer = make_detokenizer(
            tokenizer, prompt_token_ids, options.skip_special_tokens
        )
        self._stops = StopStrings(options.stops, options.include_stop_in_text)
        self._num_characters = 0

    def process(self, batch: TokenBatch) -> ChoiceDelta:
        """What the batch adds. Raises EngineFailed or NotServing if its request failed."""
        is_over = batch.finish_reason is not None
        if self._is_text_alone and not (is_over or batch.logprobs or batch.prompt_logprobs):
            return self._more_text(batch.token_ids)
        batch.check()
        for block in batch.prompt_logprobs:
            self.prompt_logprobs += read_logprobs(block)
        delta = ChoiceDelta()
        if not self._options.is_prompt_only:
            positions = deque(
                position for block in batch.logprobs for position in read_logprobs(block)
            )
            for token_id in batch.token_ids:
                self._add_token(delta, token_id, batch, positions)
                if delta.finish_reason is not None:
                    return delta
        if batch.finish_reason is not None:
            self._finish(delta, batch)
        return delta

    def _more_text(self, token_ids: list[int]) -> ChoiceDelta:
        """What most batches come to: the texts of their tokens, one after the other."""
        self.num_output_tokens += len(token_ids)
        text = "".join(map(self._detokenizer.push, token_ids))
        self._num_characters += len(text)
        return ChoiceDelta(text, token_ids)

    def _add_token(
        self,
        delta: ChoiceDelta,
        token_id: int,
        batch: TokenBatch,
        positions: deque[PositionLogprobs],
    ) -> None:
        self.num_output_tokens += 1
        delta.token_ids.append(token_id)
        if positions:
            delta.logprobs.append(TokenLogprob(positions.popleft(), self._num_characters))
        is_end = batch.stop_token_id is not None and len(delta.token_ids) == len(batch.token_ids)
        if is_end and not self._options.include_stop_in_text:
            return
        self._add_text(delta, self._detokenizer.push(token_id))

    def _add_text(self, delta: ChoiceDelta, piece: str) -> None:
        self._num_characters += len(piece)
        is_armed = self.num_output_tokens > self._options.min_tokens
        check = self._stops.push(piece, is_armed)
        delta.text += check.text
        if check.matched is not None:
            delta.finish_reason = FinishReason.STOP
            delta.stop_reason = check.matched

    def _finish(self, delta: ChoiceDelta, batch: TokenBatch) -> None:
        assert batch.finish_reason is not None
        self._add_text(delta, self._detokenizer.flush())
        if delta.finish_reason is not None:
            return
        delta.text += self._stops.flush()
        if self._options.is_prompt_only:
            delta.finish_reason = FinishReason.LENGTH
            return
        delta.finish_reason = batch.finish_reason
        if batch.stop_token_id not in self._options.silent_stop_ids:
            delta.stop_reason = batch.stop_token_id
