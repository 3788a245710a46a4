"""What one request experienced, token by token."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple


class TokenArrival(NamedTuple):
    """Tokens that arrived together, in one event of the stream."""

    at: float
    """Seconds on the monotonic clock."""
    num_tokens: int


@dataclass(slots=True)
class RequestRecord:
    """One request from the moment it was due to its end; times on the monotonic clock."""

    due_at: float
    """When it was to be sent. Latencies count from here, so that a client or server that falls
    behind is not flattered (coordinated omission)."""
    ended_at: float = 0.0
    arrivals: list[TokenArrival] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    """The tokens that arrived, where the server sends their ids; of several choices, as they came."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that the server had in its prefix cache."""
    migrations: int = 0
    """How often the request went on in another engine, where the server tells."""
    finish_reason: str | None = None
    error_kind: str | None = None
    """A few words that are alike for like errors; None for a whole answer."""
    error_detail: str = ""

    @property
    def output_tokens(self) -> int:
        """Tokens that arrived."""
        return sum(arrival.num_tokens for arrival in self.arrivals)

    @property
    def ttft_seconds(self) -> float | None:
        """Time to the first token; None if none came."""
        return self.arrivals[0].at - self.due_at if self.arrivals else None

    @property
    def tpot_seconds(self) -> float | None:
        """Mean time per output token after the first; None for fewer than two tokens."""
        later_tokens = self.output_tokens - 1
        if later_tokens < 1:
            return None
        return (self.arrivals[-1].at - self.arrivals[0].at) / later_tokens

    @property
    def itl_seconds(self) -> list[float]:
        """The gaps between successive arrivals, as somebody who watches the text feels them."""
        times = [arrival.at for arrival in self.arrivals]
        return [later - earlier for earlier, later in pairwise(times)]

    @property
    def e2e_seconds(self) -> float:
        """Time to the end of the answer."""
        return self.ended_at - self.due_at
