"""The default policy: the engine where a request costs least, all who are there considered."""

import random

from frontend.engine_book import EngineLoad
from frontend.routing.speeds import Slowness, Speeds, typical_speeds
from frontend.routing.view import EngineChoice, RoutedRequest, RoutingView

EXPECTED_OUTPUT_TOKENS = 50
CACHE_BAR_SECONDS = 20.0
"""Cost of filling the cache wholly; it grows from 90 % on, where preemption comes near."""
CACHE_BAR_FROM = 0.9
NEAR_TIE_RATIO, NEAR_TIE_SECONDS = 1.02, 0.0001


class MarginalCost:
    """Acknowledged marginal cost, in seconds.

    How long until this request's first token here, what it costs to decode it beside everyone who
    is already there, and how near the cache is to thrashing. F, the number of frontends, scales
    what this one has sent and not seen acknowledged: the others do the same, unseen.

        W' = W + F·T      B' = waiting + running + F·N      K' = K + W + F·P
        cost = slowdown·[p·(W' + u)/R + o·(d·(c + a·B' + b·K') - c)]
               + bar·max(0, (K' + prompt + o)/C - 0.9)

    R, c, a and b are the typical engine's; p and d say how much slower this one is, and are 1 unless
    it clearly is. What every engine takes alike, c, is left out, so that near ties are ties of what
    differs.
    """

    def __init__(self, random_source: random.Random) -> None:
        self._random = random_source

    def choose(self, view: RoutingView, request: RoutedRequest) -> EngineChoice:
        """A random one of the engines whose cost is within a near tie of the least."""
        typical = typical_speeds(view.loads)
        costs = [
            EngineChoice(load.rank, _cost(load, typical, view.num_frontends, request))
            for load in view.loads
        ]
        least = min(choice.cost_seconds for choice in costs)
        limit = least + abs(least) * (NEAR_TIE_RATIO - 1) + NEAR_TIE_SECONDS  # least may be below 0
        return self._random.choice([choice for choice in costs if choice.cost_seconds <= limit])


def _cost(load: EngineLoad, typical: Speeds, num_frontends: int, request: RoutedRequest) -> float:
    report, sent, withdrawn = load.report, load.sent, load.withdrawn
    uncomputed = num_frontends * sent.uncomputed_tokens - withdrawn.uncomputed_tokens
    requests = num_frontends * sent.requests - withdrawn.requests
    held = num_frontends * sent.prompt_tokens - withdrawn.prompt_tokens
    if report is not None:
        uncomputed += report.waiting_prompt_tokens
        requests += report.waiting + report.running
        held += report.running_tokens + report.waiting_prompt_tokens
    uncomputed, requests, held = max(0, uncomputed), max(0, requests), max(0, held)
    slowness = Slowness.of(load, typical)
    prefill = (
        slowness.prefill
        * (uncomputed + request.uncomputed_tokens(load.rank))
        / typical.prefill_tokens_per_second
    )
    decode = EXPECTED_OUTPUT_TOKENS * (
        slowness.decode * typical.decode_seconds(requests, held) - typical.decode_seconds_per_step
    )
    filled = (held + request.context_tokens + EXPECTED_OUTPUT_TOKENS) / load.capacity_tokens
    bar = CACHE_BAR_SECONDS * max(0.0, filled - CACHE_BAR_FROM)
    return slowness.momentary * (prefill + decode) + bar
