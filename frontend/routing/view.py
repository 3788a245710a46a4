"""What a policy decides by, and what it decides."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from frontend.engine_book import EngineLoad


class RoutingView(NamedTuple):
    """The engines that may be chosen, and how many frontends choose at the same time."""

    loads: Sequence[EngineLoad]
    num_frontends: int
    now: float = 0.0
    """Seconds, on a clock that never goes back."""


class RoutedRequest(NamedTuple):
    """What a choice depends on, of the request that is to be sent."""

    context_tokens: int
    """Its prompt, and what there is of its answer."""
    hit_tokens: Mapping[int, int] = {}
    """By rank: how many of them that engine need not compute, its cache holds them. None: 0."""

    def uncomputed_tokens(self, rank: int) -> int:
        """What this engine would have to compute before the request's next token."""
        return max(1, self.context_tokens - self.hit_tokens.get(rank, 0))


class EngineChoice(NamedTuple):
    """The engine that a request goes to, and why."""

    rank: int
    cost_seconds: float
    """Its predicted cost there; 0 by policies that predict none."""
    scores: Mapping[int, float] = {}
    """By rank: what the policy compared, in a unit of its own; less is better. Empty if nothing."""
    left_out: Sequence[int] = ()
    """Ranks that took no part in this choice, though they might have been chosen."""


class Policy(Protocol):
    """One way to choose."""

    def choose(self, view: RoutingView, request: RoutedRequest) -> EngineChoice:
        """The engine for this request. `view.loads` is not empty."""
        ...
