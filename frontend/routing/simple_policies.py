"""Policies that ask for little: counting, taking turns, and chance."""

import random

from frontend.engine_book import EngineLoad
from frontend.routing.view import EngineChoice, RoutedRequest, RoutingView


class LeastInflight:
    """Fewest requests, by the newest report and this frontend's own books; ties are random."""

    def __init__(self, random_source: random.Random) -> None:
        self._random = random_source

    def choose(self, view: RoutingView, request: RoutedRequest) -> EngineChoice:
        """A random one of the engines with the fewest requests."""
        counts = {load.rank: _requests(load) for load in view.loads}
        fewest = min(counts.values())
        rank = self._random.choice([rank for rank, count in counts.items() if count == fewest])
        return EngineChoice(rank, 0.0, counts)


def _requests(load: EngineLoad) -> int:
    reported = load.report.waiting + load.report.running if load.report is not None else 0
    return reported + load.sent.requests - load.withdrawn.requests


class RoundRobin:
    """Each in turn."""

    def __init__(self, random_source: random.Random) -> None:
        self._last_rank = random_source.randrange(1 << 16)

    def choose(self, view: RoutingView, request: RoutedRequest) -> EngineChoice:
        """The engine with the next higher rank, then the first again."""
        ranks = sorted(load.rank for load in view.loads)
        self._last_rank = next((rank for rank in ranks if rank > self._last_rank), ranks[0])
        return EngineChoice(self._last_rank, 0.0)


class Random:
    """Any."""

    def __init__(self, random_source: random.Random) -> None:
        self._random = random_source

    def choose(self, view: RoutingView, request: RoutedRequest) -> EngineChoice:
        """Any engine."""
        return EngineChoice(self._random.choice(view.loads).rank, 0.0)
