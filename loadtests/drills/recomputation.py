"""How long a moved stream had to wait, beyond the time that its context took to be computed again."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from loadtests.drills.history import Arrival, Exchange, History

LATE_SECONDS = 1.0
"""Tokens that were on their way when an engine was killed come a moment later."""


class Victim(NamedTuple):
    """A choice that had to go on in another engine."""

    killed_at: float
    gap_seconds: float
    """From its last token before to its first one after."""
    context_tokens: int
    """Its prompt, and what had arrived of its answer."""


def gaps_beyond_recomputation(
    history: History, num_survivors: int, prefill_tokens_per_second: float
) -> list[float]:
    """For each choice that moved: its gap, less what one engine's death made others compute.

    All that moved at one kill is divided over the survivors, which compute it one after another:
    the last has to wait for all. What was cached counts as computed; what answers that come whole
    had then is not seen, but at least what it is if their tokens came evenly, this gap included.
    """
    kills = sorted(mark.at for mark in history.marks if mark.text.startswith("kill engine"))
    victims = [victim for exchange in history.moved() for victim in _victims(exchange, kills)]
    context_tokens: dict[float, int] = {}
    for victim in victims:
        known = context_tokens.get(victim.killed_at, 0)
        context_tokens[victim.killed_at] = known + victim.context_tokens
    for exchange in history.moved():
        if not exchange.body.get("stream"):
            _count_whole_answer(exchange, kills, context_tokens)
    rate = num_survivors * prefill_tokens_per_second
    return [max(0.0, v.gap_seconds - context_tokens[v.killed_at] / rate) for v in victims]


def _count_whole_answer(
    exchange: Exchange, kills: Sequence[float], context_tokens: dict[float, int]
) -> None:
    """Add what an answer without a stream had to compute again, at the last kill that it outlived."""
    assert exchange.ended_at is not None, "an answer that moved has ended"
    before = bisect_right(kills, exchange.ended_at)
    if not before or (killed_at := kills[before - 1]) not in context_tokens:
        return
    progress = (killed_at - exchange.sent_at) / (exchange.ended_at - exchange.sent_at)
    if progress > 0:
        prompt_tokens = (exchange.prompt_tokens or 0) * max(1, len(exchange.choices))
        context_tokens[killed_at] += prompt_tokens + round(
            progress * (exchange.completion_tokens or 0)
        )


def _victims(exchange: Exchange, kills: Sequence[float]) -> list[Victim]:
    """As many as it has moved; streams that go on have gaps at a kill too, but shorter ones."""
    found = [victim for choice in exchange.choices for victim in _at_kills(exchange, choice, kills)]
    found.sort(key=lambda victim: victim.gap_seconds, reverse=True)
    return found[: exchange.migrations]


def _at_kills(exchange: Exchange, choice: int, kills: Sequence[float]) -> Iterator[Victim]:
    """The gaps of a choice in which an engine was killed; of several kills the last."""
    prompt = exchange.body.get("prompt")
    num_prompts = len(prompt) if isinstance(prompt, list) else 1
    context_tokens = (exchange.prompt_tokens or 0) // max(1, num_prompts)
    arrivals: list[Arrival] = [a for a in exchange.arrivals if a.choice == choice]
    for last, following in pairwise(arrivals):
        context_tokens += last.num_tokens
        before = bisect_right(kills, following.at)
        if before and kills[before - 1] >= last.at - LATE_SECONDS:
            yield Victim(kills[before - 1], following.at - last.at, context_tokens)
