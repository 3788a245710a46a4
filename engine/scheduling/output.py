"""The seam between deciding and computing: what a step is to compute, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import msgspec

from cluster.wire.messages import Blob, TokenLogprobs
from engine.request import Request

MAX_STEPS_IN_FLIGHT = 2
"""One is computed, and the next one waits behind it."""


class ScheduledRequest(msgspec.Struct, frozen=True):
    """A run of one request's tokens, to be computed in one step."""

    request: Request
    first_position: int
    """Position of the first token to compute; the KV of all before it is in the cache."""
    num_tokens: int
    block_table: list[int]
    """Blocks that hold the request's KV, `first_position + num_tokens` tokens at least."""
    reaches_end: bool = True
    """Whether this run computes the request's last token, be it one that a step in flight draws."""

    @property
    def end(self) -> int:
        """Position behind the last token to compute: that of the token drawn after this run."""
        return self.first_position + self.num_tokens

    @property
    def samples(self) -> bool:
        """Whether the next token is drawn after this run."""
        return self.reaches_end and self.request.sampling.pooling is None

    @property
    def output_position(self) -> int:
        """Index in the output of the token that is drawn after this run."""
        return self.end - self.request.num_prompt_tokens

    @property
    def is_decode(self) -> bool:
        """Whether the stream has begun and this is its newest token alone."""
        return self.samples and self.num_tokens == 1 and self.output_position > 0


class StepShape(NamedTuple):
    """What a step's time depends on."""

    prefill_tokens: int
    decodes: int
    """Runs of one token: whatever it is, it costs what a decode costs."""
    kv_tokens: int
    """Context tokens that the decodes attend to, all together."""

    @property
    def num_tokens(self) -> int:
        """Tokens that the forward pass computes."""
        return self.prefill_tokens + self.decodes


@dataclass(frozen=True)
class SchedulerOutput:
    """One step's work: decodes first, then prompt chunks, as one flat batch."""

    scheduled: list[ScheduledRequest] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)

    @cached_property
    def shape(self) -> StepShape:
        """Counted once: the work does not change."""
        prefill_tokens = decodes = kv_tokens = 0
        for scheduled in self.scheduled:
            if scheduled.num_tokens == 1:
                decodes += 1
                kv_tokens += scheduled.first_position + 1
            else:
                prefill_tokens += scheduled.num_tokens
        return StepShape(prefill_tokens, decodes, kv_tokens)


class RunResult(msgspec.Struct, frozen=True):
    """What a step computed for one scheduled request."""

    token_id: int | None = None
    """The sampled token, where the run reached the request's end."""
    logprobs: TokenLogprobs | None = None
    """One position: the sampled token and its alternatives, if asked for."""
    prompt_logprobs: TokenLogprobs | None = None
    """For the prompt positions first_position + 1 … first_position + num_tokens (those that are
    prompt tokens): each token's log probability given what is before it. If asked for."""
    error: str = ""
    """This request alone cannot go on, and why."""
    vector: Blob | None = None
    """The request's answer, where it pools and the run reached its end."""


def join_logprobs(parts: Sequence[TokenLogprobs]) -> TokenLogprobs:
    """The positions of all parts, which have one width, one after another."""
    return TokenLogprobs(
        width=parts[0].width,
        token_ids=Blob(b"".join(part.token_ids.data for part in parts)),
        logprobs=Blob(b"".join(part.logprobs.data for part in parts)),
    )


class StepOutcome(Protocol):
    """What will come of a step in flight."""

    def result(self) -> list[RunResult]:
        """Wait for the step to be computed; one result per scheduled request, in order.

        Raises only what ends the engine: a device error, out of memory.
        """
        ...


class ModelRunner(Protocol):
    """What computes steps: `engine.execution.runner`, or a simulation of it."""

    def submit(self, work: SchedulerOutput) -> StepOutcome:
        """Begin to compute and sample, behind all steps that were submitted before.

        Steps are computed in this order, one after another, and outcomes are asked for in it too.
        So blocks may be handed on as soon as their request has ended, whatever is in flight: who has
        them next writes into them later. Where a run begins with a token that the step before
        draws (`Request.token_ids` ends in front of it), the runner knows it by itself.
        """
        ...
