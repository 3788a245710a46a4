"""A model runner without a model, which notices whatever is wrong with the KV cache's books."""

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from cluster.wire.messages import Blob, TokenLogprobs
from cluster.wire.sampling import Pooling, SamplingParams
from engine.request import Request
from engine.scheduling.output import RunResult, ScheduledRequest, SchedulerOutput

Slot = tuple[int, int]
"""(block id, offset in the block)"""


def fingerprints(token_ids: Sequence[int]) -> list[int]:
    """For each position, a number that stands for its KV: a function of all tokens up to there."""
    return list(accumulate(token_ids, lambda past, token: hash((past, token)), initial=0))[1:]


def next_token(token_ids: Sequence[int], vocab_size: int) -> int:
    """The token that the simulated model says after these."""
    return fingerprints(token_ids)[-1] % vocab_size


def reference_output(
    prompt: Sequence[int], sampling: SamplingParams, max_model_len: int, vocab_size: int
) -> list[int]:
    """The output that the simulated model must give for `prompt`, whatever happens on the way."""
    token_ids = list(prompt)
    for index in range(min(sampling.max_tokens, max_model_len - len(prompt))):
        token_ids.append(next_token(token_ids, vocab_size))
        if index >= sampling.min_tokens and token_ids[-1] in sampling.stop_token_ids:
            break
    return token_ids[len(prompt) :]


def reference_vector(token_ids: Sequence[int], pooling: Pooling) -> Blob:
    """The vector that the simulated model must give for a prompt."""
    states = fingerprints(token_ids)
    value = sum(states) if pooling is Pooling.MEAN else states[-1]
    return Blob(value.to_bytes(16, "little", signed=True))


class Computation(NamedTuple):
    """A step that is computed when it is asked for."""

    result: Callable[[], list[RunResult]]


class SimulatedRunner:
    """Keeps a fingerprint a slot instead of KV, and checks each one it would have read.

    A wrong block table, a hit on a block that is not computed yet, a block that was given away
    too early: each makes some position's fingerprint differ from its request's tokens.

    Of the tokens that a request does not have yet, it knows those that the step before drew.
    """

    overlaps_steps = False
    is_eager = False
    """Whether it computes a step as early as it may, and not as late."""

    def __init__(self, num_blocks: int, block_size: int, vocab_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.vocab_size = vocab_size
        self.failures: dict[str, str] = {}
        """Errors with which to answer for requests, by request id."""
        self.computed_positions: list[tuple[str, int]] = []
        """(request id, position) of everything that was computed, in order."""
        self._kv: dict[Slot, int] = {}
        self._pooled: dict[str, dict[int, int]] = {}
        """By request id, the fingerprints of what was computed since its first position."""
        self._drawn: dict[Request, int] = {}

    def submit(self, work: SchedulerOutput) -> Computation:
        """See `ModelRunner`."""
        if not self.is_eager:
            return Computation(lambda: self.execute(work))
        results = self.execute(work)
        return Computation(lambda: results)

    def execute(self, work: SchedulerOutput) -> list[RunResult]:
        """Check all reads, then write, then answer: nobody may read what this step computes."""
        written: dict[Slot, int] = {}
        for scheduled in work.scheduled:
            self._check_reads(scheduled)
            for slot, fingerprint in self._writes(scheduled).items():
                assert slot not in written, f"{slot} is written twice in one step"
                written[slot] = fingerprint
        self._kv.update(written)
        results = [self._answer(scheduled) for scheduled in work.scheduled]
        self._drawn = {
            scheduled.request: 0 if result.token_id is None else result.token_id
            for scheduled, result in zip(work.scheduled, results, strict=True)
            if scheduled.samples
        }
        return results

    def _token_ids(self, scheduled: ScheduledRequest) -> list[int]:
        """The request's tokens up to the end of the run."""
        token_ids = scheduled.request.token_ids[: scheduled.end]
        if len(token_ids) < scheduled.end:
            token_ids.append(self._drawn[scheduled.request])
        assert len(token_ids) == scheduled.end, "a token is computed that nobody knows"
        return token_ids

    def _check_reads(self, scheduled: ScheduledRequest) -> None:
        request, first = scheduled.request, scheduled.first_position
        for position, expected in enumerate(fingerprints(self._token_ids(scheduled)[:first])):
            slot = self._slot(scheduled, position)
            assert self._kv.get(slot) == expected, (
                f"{request.request_id} reads position {position} from {slot}: not its KV"
            )

    def _writes(self, scheduled: ScheduledRequest) -> dict[Slot, int]:
        request, first, end = scheduled.request, scheduled.first_position, scheduled.end
        assert scheduled.num_tokens > 0
        self.computed_positions += [(request.request_id, p) for p in range(first, end)]
        values = fingerprints(self._token_ids(scheduled))
        return {self._slot(scheduled, p): values[p] for p in range(first, end)}

    def _slot(self, scheduled: ScheduledRequest, position: int) -> Slot:
        block_id = scheduled.block_table[position // self.block_size]
        assert 0 <= block_id < self.num_blocks, f"there is no block {block_id}"
        return block_id, position % self.block_size

    def _answer(self, scheduled: ScheduledRequest) -> RunResult:
        request = scheduled.request
        if request.request_id in self.failures:
            return RunResult(error=self.failures[request.request_id])
        if request.sampling.pooling is not None:
            return RunResult(vector=self._pool(scheduled, request.sampling.pooling.pooling))
        token_ids = self._token_ids(scheduled)
        token_id = next_token(token_ids, self.vocab_size) if scheduled.samples else None
        wants_logprobs = request.sampling.logprobs is not None and token_id is not None
        return RunResult(
            token_id=token_id,
            logprobs=_logprobs([token_id]) if wants_logprobs and token_id is not None else None,
            prompt_logprobs=self._prompt_logprobs(scheduled),
        )

    def _pool(self, scheduled: ScheduledRequest, pooling: Pooling) -> Blob | None:
        """From what was computed alone: a mean over a prompt that was skipped in part is wrong."""
        request, first = scheduled.request, scheduled.first_position
        if first == 0:
            self._pooled[request.request_id] = {}
        pooled = self._pooled.setdefault(request.request_id, {})
        states = fingerprints(request.token_ids)
        pooled |= {p: states[p] for p in range(first, first + scheduled.num_tokens)}
        if not scheduled.reaches_end:
            return None
        value = sum(pooled.values()) if pooling is Pooling.MEAN else pooled[request.num_tokens - 1]
        return Blob(value.to_bytes(16, "little", signed=True))

    def _prompt_logprobs(self, scheduled: ScheduledRequest) -> TokenLogprobs | None:
        request, first = scheduled.request, scheduled.first_position
        if request.sampling.prompt_logprobs is None:
            return None
        end = min(first + scheduled.num_tokens + 1, request.num_prompt_tokens)
        return _logprobs(request.token_ids[first + 1 : end])


def _logprobs(token_ids: Sequence[int]) -> TokenLogprobs:
    """Made-up log probabilities of these tokens, without alternatives."""
    return TokenLogprobs(
        width=1,
        token_ids=Blob(array("i", token_ids).tobytes()),
        logprobs=Blob(array("f", [-1.0] * len(token_ids)).tobytes()),
    )
