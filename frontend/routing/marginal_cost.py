"""The default policy: the engine where a request costs least, all who are there considered."""

import random
from collections.abc import Sequence

from msgspec import Struct

from frontend.engine_book import STALE_REPORT_SECONDS, EngineLoad
from frontend.routing.candidates import MOST_COMPARED, candidates
from frontend.routing.speeds import Slowness, SlownessScale, typical_speeds
from frontend.routing.view import EngineChoice, RoutedRequest, RoutingView

MARGINAL_COST = "marginal-cost"
EXPECTED_OUTPUT_TOKENS = 50
OWN_PROMPT_WEIGHT = 3
"""What a request has computed of its own prompt counts so often: all who come after it wait for that
too, and lose the cache that it takes. By 1, a queue of a few tenths of a second drives requests from
the engine that holds their prefix, to be computed where they delay others."""
CACHE_BAR_SECONDS = 20.0
"""Cost of filling the cache wholly; it grows from 90 % on, where preemption comes near."""
CACHE_BAR_FROM = 0.9
NEAR_TIE_RATIO, NEAR_TIE_SECONDS = 1.02, 0.0001


class CostTerms(Struct, frozen=True, gc=False):
    """What a request would cost at one engine, and what that is made of.

    One is made for each engine in each choice: a struct, since a NamedTuple takes five times as long.
    """

    total_seconds: float
    prefill_seconds: float
    """Until the request's next token, and what its prompt takes from others, by this engine's speed."""
    decode_seconds: float
    """Decoding it beside all who are there, by this engine's speed."""
    cache_bar_seconds: float
    slowness: Slowness
    hit_tokens: int


class CostModel:
    """Acknowledged marginal cost of one request, in seconds, at each engine of a view.

    How long until this request's first token here, what its prompt takes from those after it, what
    it costs to decode it beside everyone who is there, and how near the cache is to thrashing. F, the number of frontends, scales
    what this one has sent and not seen acknowledged: the others do the same, unseen.

        W' = W + F·T      B' = waiting + running + F·N      K' = K + W + F·P
        cost = slowdown·[p·(W' + 3u)/R + o·(d·(c + a·B' + b·K') - c)]
               + bar·max(0, (K' + prompt + o)/C - 0.9)

    R, c, a and b are the typical engine's; p and d say how much slower this one is, and are 1 unless
    it clearly is. What every engine takes alike, c, is left out, so that near ties are ties of what
    differs.
    """

    def __init__(
        self, view: RoutingView, request: RoutedRequest, compared: Sequence[EngineLoad]
    ) -> None:
        self._num_frontends = view.num_frontends
        self._context_tokens, self._hit_tokens = request.context_tokens, request.hit_tokens
        self._typical = typical_speeds(view.loads if len(view.loads) <= MOST_COMPARED else compared)
        self._slowness = SlownessScale(self._typical)

    def terms(self, load: EngineLoad) -> CostTerms:
        """The cost at this engine."""
        tokens_per_second, step_seconds, seconds_per_request, seconds_per_token, _ = self._typical
        uncomputed, requests, held = expected_load(load, self._num_frontends)
        slowness = self._slowness.of(load)
        slower_prefill, slower_decode, slowdown = slowness
        hit_tokens = self._hit_tokens.get(load.rank, 0)
        uncomputed += OWN_PROMPT_WEIGHT * max(1, self._context_tokens - hit_tokens)
        prefill_seconds = slowdown * slower_prefill * uncomputed / tokens_per_second
        shared_step_seconds = (
            step_seconds + seconds_per_request * requests + seconds_per_token * held
        )
        decode_seconds = slowdown * (slower_decode * shared_step_seconds - step_seconds)
        decode_seconds *= EXPECTED_OUTPUT_TOKENS
        needed_tokens = held + self._context_tokens + EXPECTED_OUTPUT_TOKENS
        overfull = needed_tokens / (load.capacity_tokens or 1) - CACHE_BAR_FROM
        bar_seconds = CACHE_BAR_SECONDS * overfull if overfull > 0 else 0.0
        return CostTerms(
            prefill_seconds + decode_seconds + bar_seconds,
            prefill_seconds, decode_seconds, bar_seconds, slowness, hit_tokens,
        )  # fmt: skip


def expected_load(load: EngineLoad, num_frontends: int) -> tuple[int, int, int]:
    """What an engine has now, as far as can be told: uncomputed tokens, requests, KV tokens.

    A report that is very old tells nothing more: own requests count alone, which are known exactly.
    """
    requests, uncomputed, held = load.sent
    report, withdrawn = load.report, load.withdrawn
    if report is None or load.report_age_seconds > STALE_REPORT_SECONDS:
        return (
            num_frontends * max(0, uncomputed - withdrawn.uncomputed_tokens),
            num_frontends * max(load.in_flight, requests - withdrawn.requests),
            num_frontends * max(0, held - withdrawn.prompt_tokens),
        )
    waiting_tokens = report.waiting_prompt_tokens
    uncomputed = num_frontends * uncomputed + waiting_tokens
    requests = num_frontends * requests + report.waiting + report.running
    held = num_frontends * held + report.running_tokens + waiting_tokens
    if withdrawn.requests:
        uncomputed = max(0, uncomputed - withdrawn.uncomputed_tokens)
        requests = max(0, requests - withdrawn.requests)
        held = max(0, held - withdrawn.prompt_tokens)
    return uncomputed, requests, held


class MarginalCost:
    """Where a request costs least; who takes part is said by `candidates`."""

    def __init__(self, random_source: random.Random) -> None:
        self._random = random_source

    def choose(self, view: RoutingView, request: RoutedRequest) -> EngineChoice:
        """A random one of the engines whose cost is within a near tie of the least."""
        compared = candidates(view, request, self._random)
        terms = CostModel(view, request, compared).terms
        costs = [(terms(load).total_seconds, load.rank) for load in compared]
        least, _ = min(costs)
        limit = least + abs(least) * (NEAR_TIE_RATIO - 1) + NEAR_TIE_SECONDS  # least may be below 0
        cost, rank = self._random.choice([pair for pair in costs if pair[0] <= limit])
        return EngineChoice(rank, cost, left_out=_left_out(view, costs))


def _left_out(view: RoutingView, costs: list[tuple[float, int]]) -> tuple[int, ...]:
    if len(costs) == len(view.loads):
        return ()
    compared = {rank for _, rank in costs}
    return tuple(load.rank for load in view.loads if load.rank not in compared)
