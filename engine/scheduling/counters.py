"""What the scheduler counts, and the times that a request took."""

from dataclasses import dataclass, field
from typing import NamedTuple

from engine.request import Request


class RequestTimings(NamedTuple):
    """How long a request that has ended spent in each of its phases, in this engine."""

    queue_seconds: float
    """From acceptance to the first step that computed a part of it."""
    prefill_seconds: float
    """From there to its first token."""
    decode_seconds: float
    """From its first token to its last."""

    @classmethod
    def of(cls, request: Request) -> "RequestTimings | None":
        """The timings of a request; None if it has not got as far as a token here."""
        if (
            request.first_scheduled_at is None
            or request.first_token_at is None
            or request.last_token_at is None
        ):
            return None
        return cls(
            request.first_scheduled_at - request.accepted_at,
            request.first_token_at - request.first_scheduled_at,
            request.last_token_at - request.first_token_at,
        )


@dataclass(slots=True)
class SchedulerCounters:
    """Counts since the engine's start, and the requests that have ended since the last look."""

    preemptions: int = 0
    prefix_queries: int = 0
    """Prompt tokens looked up in the prefix cache, each request once."""
    prefix_hits: int = 0
    """Those that were found."""
    computed_tokens: int = 0
    finished: list[RequestTimings] = field(default_factory=list)

    def take_finished(self) -> tuple[RequestTimings, ...]:
        """The timings of the requests that have ended since the last call."""
        finished, self.finished = tuple(self.finished), []
        return finished
