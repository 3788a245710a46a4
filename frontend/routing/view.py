"""What a policy decides by, and what it decides."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from frontend.engine_book import EngineLoad


class RoutingView(NamedTuple):
    """The engines that may be chosen, and how many frontends choose at the same time."""

    loads: Sequence[EngineLoad]
    num_frontends: int


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
    """The engine that a request goes to, and its predicted cost there."""

    rank: int
    cost_seconds: float


class Policy(Protocol):
    """One way to choose."""

    def choose(self, view: RoutingView, request: RoutedRequest) -> EngineChoice:
        """The engine for this request. `view.loads` is not empty."""
        ...
