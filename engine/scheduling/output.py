"""The seam between deciding and computing: what a step is to compute, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from cluster.wire.messages import Blob, TokenLogprobs
from engine.request import Request


class ScheduledRequest(NamedTuple):
    """A run of one request's tokens, to be computed in one step."""

    request: Request
    first_position: int
    """Position of the first token to compute; the KV of all before it is in the cache."""
    num_tokens: int
    block_table: list[int]
    """Blocks that hold the request's KV, `first_position + num_tokens` tokens at least."""

    @property
    def reaches_end(self) -> bool:
        """Whether this run computes the request's last token."""
        return self.first_position + self.num_tokens == self.request.num_tokens

    @property
    def samples(self) -> bool:
        """Whether the next token is drawn after this run."""
        return self.reaches_end and self.request.sampling.pooling is None


@dataclass(frozen=True, slots=True)
class SchedulerOutput:
    """One step's work: decodes first, then prompt chunks, as one flat batch."""

    scheduled: list[ScheduledRequest] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        """Tokens that the forward pass computes."""
        return sum(scheduled.num_tokens for scheduled in self.scheduled)


class RunResult(NamedTuple):
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


class ModelRunner(Protocol):
    """What computes a step: `engine.execution.runner`, or a simulation of it."""

    def execute(self, work: SchedulerOutput) -> list[RunResult]:
        """Compute and sample; one result per scheduled request, in order.

        Raises only what ends the engine: a device error, out of memory.
        """
        ...
