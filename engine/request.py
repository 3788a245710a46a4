"""One request as the engine holds it, from its acceptance to its end."""

import enum
from dataclasses import dataclass, field

from cluster.wire.messages import AddRequest, TokenLogprobs
from cluster.wire.sampling import FinishReason, Pooling, SamplingParams


class RequestStatus(enum.Enum):
    """Where a request stands."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    """Waiting again, its KV freed, because the cache was full."""
    FINISHED = "finished"


_RUNNING, _FINISHED = RequestStatus.RUNNING, RequestStatus.FINISHED
"""Taken out once: Python 3.11 takes longer to find a member of an enum than to call a function."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Request:
    """A request and its progress: `num_computed_tokens` chases `num_tokens`.

    Owned by the scheduler; the model runner only reads it. `token_ids` is the prompt followed by the
    output, and the output may begin with tokens that another engine produced before it died.

    While a step is in flight that computes its last token, the next one has a place but no id yet:
    behind `token_ids`, where a run that is scheduled ahead begins.
    """

    request_id: str
    frontend_index: int
    attempt: int
    token_ids: list[int]
    num_prompt_tokens: int
    sampling: SamplingParams
    block_hashes: list[bytes]
    """Chained hashes of the full blocks of `token_ids`, as far as they are known."""
    cache_salt: str = ""
    priority: int = 0
    tenant: str = ""
    """Who asks; empty where nobody is told apart."""
    isolated_until: int = 0
    """Until it has so many output tokens nobody else is in its steps."""
    arrived_at: float = 0.0
    """When the client's request arrived, on this engine's clock."""
    accepted_at: float = 0.0
    first_scheduled_at: float | None = None
    first_token_at: float | None = None
    status: RequestStatus = RequestStatus.WAITING
    num_computed_tokens: int = 0
    num_tokens_in_flight: int = 0
    """Behind those, what the steps under way compute."""
    num_cached_tokens: int | None = None
    """Prompt tokens found in the prefix cache at the first admission; None before that."""
    num_reported_tokens: int = 0
    """How many of `token_ids` the frontend has been sent, or had before."""
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    error: str = ""
    prompt_logprobs_sent: bool = False
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)
    """Those of the chunks computed so far. They leave together with the first token, so that
    neither a preemption nor a move in the middle of the prompt can send a part of them twice."""
    last_token_at: float | None = None
    precedence: tuple[int, float, int] = (0, 0.0, 0)
    """The request with the smallest is admitted first and preempted last; no two are equal."""

    @classmethod
    def from_message(cls, message: AddRequest, now: float) -> "Request":
        """The request that a frontend has sent, as accepted at `now`."""
        token_ids = message.prompt_token_ids + message.output_token_ids
        return cls(
            request_id=message.request_id,
            frontend_index=message.frontend_index,
            attempt=message.attempt,
            token_ids=token_ids,
            num_prompt_tokens=len(message.prompt_token_ids),
            sampling=message.sampling,
            block_hashes=list(message.block_hashes),
            cache_salt=message.cache_salt,
            priority=message.priority,
            tenant=message.tenant,
            isolated_until=message.isolated_until,
            arrived_at=now - message.age_seconds,
            accepted_at=now,
            num_reported_tokens=len(token_ids),
            prompt_logprobs_sent=bool(message.output_token_ids),
        )

    @property
    def num_tokens(self) -> int:
        """Length of prompt and output together."""
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        """Output tokens so far, those of earlier engines included."""
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def output_token_ids(self) -> list[int]:
        """A copy of the output so far."""
        return self.token_ids[self.num_prompt_tokens :]

    @property
    def num_tokens_to_compute(self) -> int:
        """Tokens whose KV is not in the cache yet."""
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def next_position(self) -> int:
        """Where its next run begins: behind all that is computed or under way."""
        return self.num_computed_tokens + self.num_tokens_in_flight

    @property
    def num_tokens_to_schedule(self) -> int:
        """Tokens that its next run could take: those left of its context, or the newest one."""
        num_known = len(self.token_ids) - self.num_computed_tokens - self.num_tokens_in_flight
        return num_known if num_known > 0 else 1

    @property
    def decodes_next(self) -> bool:
        """Whether its next run is one of its newest token alone, which may be in flight itself."""
        position = self.num_computed_tokens + self.num_tokens_in_flight
        return (
            position >= self.num_prompt_tokens
            and position >= len(self.token_ids) - 1
            and self.sampling.pooling is None
        )

    @property
    def has_begun(self) -> bool:
        """Whether its stream has a token, be it in flight."""
        return len(self.token_ids) > self.num_prompt_tokens or self.decodes_next

    @property
    def is_drawing(self) -> bool:
        """Whether all its tokens are computed or under way: what comes of the last one is not known."""
        return self.num_computed_tokens + self.num_tokens_in_flight >= len(self.token_ids)

    @property
    def needs_whole_prompt(self) -> bool:
        """Whether cached prefixes are of no use: something of each prompt token has to be computed."""
        pooling = self.sampling.pooling
        if pooling is not None:
            return pooling.pooling is Pooling.MEAN
        return self.sampling.prompt_logprobs is not None and not self.prompt_logprobs_sent

    @property
    def is_isolated(self) -> bool:
        """Whether it is still to be computed in steps of its own."""
        return self.isolated_until > len(self.token_ids) - self.num_prompt_tokens

    @property
    def is_decoding(self) -> bool:
        """Whether its stream has begun and only its newest token is left to compute."""
        return (
            self.num_computed_tokens == len(self.token_ids) - 1
            and len(self.token_ids) > self.num_prompt_tokens
        )

    @property
    def is_running(self) -> bool:
        """Whether it is admitted, and holds blocks."""
        return self.status is _RUNNING

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will be computed for it."""
        return self.status is _FINISHED
