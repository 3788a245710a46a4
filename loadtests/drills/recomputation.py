"""How long a moved stream had to wait, beyond the time that its context took to be computed again."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from loadtests.drills.history import Exchange, History, Mark

LATE_SECONDS = 1.0
"""Tokens that were on their way when an engine was killed come a moment later."""


class Gap(NamedTuple):
    """The longest time between two tokens of one choice of a request."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


def gaps_beyond_recomputation(
    history: History, num_survivors: int, prefill_tokens_per_second: float
) -> list[float]:
    """For each streamed request that moved: its gap, less what one engine's death made others compute.

    All that moved at one kill is divided over the survivors, which compute it one after another:
    the last has to wait for all. What was cached counts as computed, and what whole answers had
    is not known and does not count.
    """
    marks = [mark for mark in history.marks if mark.text.startswith("kill engine")]
    victims: dict[float, list[tuple[Exchange, Gap]]] = {}
    for exchange in history.moved():
        gap = longest_gap(exchange)
        mark = _cause(gap, marks) if gap is not None else None
        if gap is not None and mark is not None:
            victims.setdefault(mark.at, []).append((exchange, gap))
    beyond = []
    for group in victims.values():
        num_tokens = sum(_context_tokens(exchange, gap) for exchange, gap in group)
        seconds = num_tokens / num_survivors / prefill_tokens_per_second
        beyond += [max(0.0, gap.seconds - seconds) for _, gap in group]
    return beyond


def longest_gap(exchange: Exchange) -> Gap | None:
    """None if no choice has two arrivals."""
    times: dict[int, list[float]] = {}
    for arrival in exchange.arrivals:
        times.setdefault(arrival.choice, []).append(arrival.at)
    gaps = [Gap(*pair) for ats in times.values() for pair in pairwise(ats)]
    return max(gaps, key=lambda gap: gap.seconds, default=None)


def _cause(gap: Gap, marks: Sequence[Mark]) -> Mark | None:
    """The newest kill that the gap may come from."""
    during = [mark for mark in marks if gap.start - LATE_SECONDS <= mark.at <= gap.end]
    return during[-1] if during else None


def _context_tokens(exchange: Exchange, gap: Gap) -> int:
    """What there was of a request when its engine died."""
    arrived = sum(a.num_tokens for a in exchange.arrivals if a.at <= gap.start)
    return (exchange.prompt_tokens or 0) + arrived
