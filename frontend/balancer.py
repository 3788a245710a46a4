"""The choice of a replica: pure decisions over what is known of the engines. No socket, no clock."""

import random
from collections.abc import Sequence
from statistics import median_high, median_low
from typing import NamedTuple, Protocol

from cluster.wire.messages import LoadReport
from frontend.engine_book import EngineLoad

EXPECTED_OUTPUT_TOKENS = 50
CACHE_BAR_SECONDS = 20.0
"""Cost of filling the cache wholly; it grows from 90 % on, where preemption comes near."""
CACHE_BAR_FROM = 0.9
NEAR_TIE_RATIO, NEAR_TIE_SECONDS = 1.02, 0.0001
OLD_NEWS_SECONDS = 0.3
"""Reports older than this flatten the choice to the better of two random engines."""

EQUAL_SPEED_RATIO = 1.7
"""Engines whose measured speeds differ by less are taken to be equally fast: on equal devices the
difference is noise, and balancing by noise keeps them unequally busy."""
SLOWED_DOWN_RATIO = 2.0
"""A momentary slowness counts from here on; less than that is a neighbour's passing work."""
FORGIVEN_SECONDS = 1.0
"""An idle engine's slowness counts half after so long: only new work can show that it is over."""
REFERENCE_REQUESTS = 8
"""The decode step by which engines are compared."""
LEAST_REQUEST_SHARE = 0.02
"""What a request adds to a step, at least, as a share of the step's fixed time."""


class EngineChoice(NamedTuple):
    """The engine that a request goes to, and its predicted cost there."""

    rank: int
    cost_seconds: float


class RoutingView(NamedTuple):
    """The engines that may be chosen, and how many frontends choose at the same time."""

    loads: Sequence[EngineLoad]
    num_frontends: int


class Policy(Protocol):
    """One way to choose."""

    def choose(self, view: RoutingView, prompt_tokens: int) -> EngineChoice:
        """The engine for a prompt of this length. `view.loads` is not empty."""
        ...


class Balancer:
    """Chooses by one policy; flattens the choice when all it has is old news."""

    def __init__(self, policy_name: str, random_source: random.Random) -> None:
        self.policy_name = policy_name
        self._random = random_source
        self._policy = _POLICIES[policy_name](random_source)

    def choose(self, view: RoutingView, prompt_tokens: int) -> EngineChoice | None:
        """The engine for a prompt of this length; None if no engine may be chosen."""
        if not view.loads:
            return None
        fresh = [load for load in view.loads if load.report_age_seconds <= OLD_NEWS_SECONDS]
        if not fresh and len(view.loads) > 2:
            view = view._replace(loads=self._random.sample(list(view.loads), 2))
        return self._policy.choose(view, prompt_tokens)


class Speeds(NamedTuple):
    """How fast engines are. The defaults are a prior, for before anything is measured."""

    prefill_tokens_per_second: float = 1000.0
    decode_seconds_per_step: float = 0.02
    decode_seconds_per_request: float = 0.002
    decode_seconds_per_kv_token: float = 1e-6

    def decode_seconds(self, requests: float, kv_tokens: float) -> float:
        """Time of a decode step."""
        per_request = max(
            self.decode_seconds_per_request, LEAST_REQUEST_SHARE * self.decode_seconds_per_step
        )
        return (
            self.decode_seconds_per_step
            + per_request * requests
            + self.decode_seconds_per_kv_token * kv_tokens
        )

    @property
    def reference_seconds(self) -> float:
        """Time of the step by which engines are compared."""
        return self.decode_seconds(REFERENCE_REQUESTS, 0)


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

    def choose(self, view: RoutingView, prompt_tokens: int) -> EngineChoice:
        """A random one of the engines whose cost is within a near tie of the least."""
        typical = _typical_speeds(view.loads)
        costs = [
            EngineChoice(load.rank, _cost(load, typical, view.num_frontends, prompt_tokens))
            for load in view.loads
        ]
        least = min(choice.cost_seconds for choice in costs)
        limit = least + abs(least) * (NEAR_TIE_RATIO - 1) + NEAR_TIE_SECONDS  # least may be below 0
        return self._random.choice([choice for choice in costs if choice.cost_seconds <= limit])


def _typical_speeds(loads: Sequence[EngineLoad]) -> Speeds:
    """What the engine in the middle has measured; of two, the faster one."""
    reports = [load.report for load in loads if load.report is not None]
    prefill = [r.prefill_tokens_per_second for r in reports if r.prefill_tokens_per_second]
    decode = [speeds for r in reports if (speeds := _decode_speeds(r)) is not None]
    typical = Speeds()
    if decode:
        seconds = median_low([speeds.reference_seconds for speeds in decode])
        typical = next(speeds for speeds in decode if speeds.reference_seconds == seconds)
    if prefill:
        typical = typical._replace(prefill_tokens_per_second=median_high(prefill))
    return typical


def _decode_speeds(report: LoadReport) -> Speeds | None:
    """The decode terms that an engine has measured; None before it has decoded anything."""
    speeds = Speeds(
        decode_seconds_per_step=report.decode_seconds_per_step,
        decode_seconds_per_request=report.decode_seconds_per_request,
        decode_seconds_per_kv_token=report.decode_seconds_per_kv_token,
    )
    return speeds if speeds.reference_seconds > 0 else None


class Slowness(NamedTuple):
    """How much slower than the typical engine one is; 1 unless it clearly is slower or faster."""

    prefill: float = 1.0
    decode: float = 1.0
    momentary: float = 1.0
    """Its recent steps against its own usual ones."""

    @classmethod
    def of(cls, load: EngineLoad, typical: Speeds) -> "Slowness":
        """By what this engine's newest report says."""
        report = load.report
        if report is None:
            return cls()
        idle_seconds = 0.0
        if report.waiting + report.running == 0:
            idle_seconds = report.seconds_since_step + load.report_age_seconds
        weight = 0.5 ** (idle_seconds / FORGIVEN_SECONDS)
        rate, own = report.prefill_tokens_per_second, _decode_speeds(report)
        prefill = typical.prefill_tokens_per_second / rate if rate else 1.0
        decode = own.reference_seconds / typical.reference_seconds if own is not None else 1.0
        momentary = report.slowdown if report.slowdown > SLOWED_DOWN_RATIO else 1.0
        return cls(
            _unless_equal(prefill) ** weight, _unless_equal(decode) ** weight, momentary**weight
        )


def _unless_equal(ratio: float) -> float:
    """The ratio of two speeds, or 1 if they are as good as equal."""
    return ratio if not 1 / EQUAL_SPEED_RATIO < ratio < EQUAL_SPEED_RATIO else 1.0


def _cost(load: EngineLoad, typical: Speeds, num_frontends: int, prompt_tokens: int) -> float:
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
    prefill = slowness.prefill * (uncomputed + prompt_tokens) / typical.prefill_tokens_per_second
    decode = EXPECTED_OUTPUT_TOKENS * (
        slowness.decode * typical.decode_seconds(requests, held) - typical.decode_seconds_per_step
    )
    filled = (held + prompt_tokens + EXPECTED_OUTPUT_TOKENS) / load.capacity_tokens
    bar = CACHE_BAR_SECONDS * max(0.0, filled - CACHE_BAR_FROM)
    return slowness.momentary * (prefill + decode) + bar


class LeastInflight:
    """Fewest requests, by the newest report and this frontend's own books; ties are random."""

    def __init__(self, random_source: random.Random) -> None:
        self._random = random_source

    def choose(self, view: RoutingView, prompt_tokens: int) -> EngineChoice:
        """A random one of the engines with the fewest requests."""
        counts = {load.rank: _requests(load) for load in view.loads}
        fewest = min(counts.values())
        rank = self._random.choice([rank for rank, count in counts.items() if count == fewest])
        return EngineChoice(rank, 0.0)


def _requests(load: EngineLoad) -> int:
    reported = load.report.waiting + load.report.running if load.report is not None else 0
    return reported + load.sent.requests - load.withdrawn.requests


class RoundRobin:
    """Each in turn."""

    def __init__(self, random_source: random.Random) -> None:
        self._last_rank = random_source.randrange(1 << 16)

    def choose(self, view: RoutingView, prompt_tokens: int) -> EngineChoice:
        """The engine with the next higher rank, then the first again."""
        ranks = sorted(load.rank for load in view.loads)
        self._last_rank = next((rank for rank in ranks if rank > self._last_rank), ranks[0])
        return EngineChoice(self._last_rank, 0.0)


class Random:
    """Any."""

    def __init__(self, random_source: random.Random) -> None:
        self._random = random_source

    def choose(self, view: RoutingView, prompt_tokens: int) -> EngineChoice:
        """Any engine."""
        return EngineChoice(self._random.choice(view.loads).rank, 0.0)


_POLICIES: dict[str, type[MarginalCost | LeastInflight | RoundRobin | Random]] = {
    "marginal-cost": MarginalCost,
    "least-inflight": LeastInflight,
    "round-robin": RoundRobin,
    "random": Random,
}
