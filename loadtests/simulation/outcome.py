"""What came of one simulated run."""

from collections.abc import Sequence

import msgspec

from loadtests.report import percentile
from loadtests.simulation.request import ClientRequest
from loadtests.simulation.scenario import Scenario

GOODPUT_TTFT_SECONDS = 1.0
GOODPUT_TPOT_SECONDS = 0.05
"""A request counts for goodput if it keeps both."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One run in numbers; latencies are of all requests that have ended, in seconds."""

    policy: str
    workload: str
    load: float
    """Offered requests as a share of what the engines can serve."""
    engines: int
    frontends: int
    age_seconds: float
    """How old a report is when frontends hear of it."""
    scenario: str
    """What happens to the engines: `equal`, or what fails; and all else that is not as usual."""
    seed: int
    completed: int
    moved: int
    """Requests that went on in another engine."""
    preemptions: int
    ttft_mean: float
    ttft_p50: float
    ttft_p99: float
    tpot_p50: float
    tpot_p99: float
    e2e_p50: float
    e2e_p99: float
    goodput: float
    """Share of the requests with TTFT ≤ 1 s and TPOT ≤ 50 ms."""
    hit_rate: float
    """Cached prompt tokens / prompt tokens."""
    imbalance: float
    """Most less fewest requests of an engine / their mean: on average over the run, looked at ten
    times a second. 0 is even."""
    decision_microseconds: float
    """Mean time that one choice took here, hits and loads included; not simulated."""
    e2e_mean: float = 0.0
    seconds: float = 0.0
    """For how long requests came."""
    requests: int = 0
    refused: int = 0
    """Requests that are longer than a KV cache."""
    frontend_shares: list[float] = []
    """Of the traffic, one a frontend."""
    held: int = 0
    """Requests that waited in a frontend until an engine had room."""
    ttft_mean_by_tenant: dict[str, float] = {}
    """By tenant, where there are several."""


class Tally(msgspec.Struct, kw_only=True):
    """What a run counts beside its requests."""

    preemptions: int = 0
    refused: int = 0
    held: int = 0
    decisions: int = 0
    decision_seconds: float = 0.0
    imbalances: list[float] = []


def make_outcome(
    scenario: Scenario, load: float, requests: Sequence[ClientRequest], tally: Tally
) -> Outcome:
    """The outcome of a run in which these requests came."""
    ended = [request for request in requests if request.ended_at is not None]
    ttft = sorted(request.ttft_seconds for request in ended)
    tpot = sorted(request.tpot_seconds for request in ended if request.output_tokens > 1)
    e2e = sorted(request.e2e_seconds for request in ended)
    prompt_tokens = sum(request.prompt_tokens for request in ended)
    good = sum(
        r.ttft_seconds <= GOODPUT_TTFT_SECONDS and r.tpot_seconds <= GOODPUT_TPOT_SECONDS
        for r in ended
    )
    return Outcome(
        policy=scenario.policy,
        workload=scenario.workload,
        load=load,
        engines=scenario.engines,
        frontends=len(scenario.frontend_shares),
        frontend_shares=list(scenario.frontend_shares),
        age_seconds=scenario.age_seconds,
        scenario=scenario.title,
        seed=scenario.seed,
        seconds=scenario.seconds,
        requests=len(requests),
        completed=len(ended),
        refused=tally.refused,
        moved=sum(request.num_moves > 0 for request in requests),
        preemptions=tally.preemptions,
        ttft_mean=_mean(ttft),
        ttft_p50=_percentile(ttft, 0.5),
        ttft_p99=_percentile(ttft, 0.99),
        tpot_p50=_percentile(tpot, 0.5),
        tpot_p99=_percentile(tpot, 0.99),
        e2e_mean=_mean(e2e),
        e2e_p50=_percentile(e2e, 0.5),
        e2e_p99=_percentile(e2e, 0.99),
        goodput=good / len(requests) if requests else 0.0,
        hit_rate=sum(r.cached_tokens for r in ended) / prompt_tokens if prompt_tokens else 0.0,
        imbalance=_mean(tally.imbalances),
        decision_microseconds=1e6 * tally.decision_seconds / max(1, tally.decisions),
        held=tally.held,
        ttft_mean_by_tenant=_ttft_by_tenant(ended),
    )


def _ttft_by_tenant(ended: Sequence[ClientRequest]) -> dict[str, float]:
    tenants = sorted({request.tenant for request in ended})
    if len(tenants) < 2:
        return {}
    return {
        tenant: _mean([r.ttft_seconds for r in ended if r.tenant == tenant]) for tenant in tenants
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _percentile(ordered: Sequence[float], share: float) -> float:
    return percentile(ordered, share) if ordered else 0.0
