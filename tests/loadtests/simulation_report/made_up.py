"""Outcomes as a simulation would bring them, without one."""

from typing import Any

import msgspec

from loadtests.simulation.judge import Verdict
from loadtests.simulation.outcome import Outcome

_ONE = Outcome(
    policy="marginal-cost", workload="uniform", load=0.8, engines=8, frontends=4, age_seconds=0.1,
    scenario="equal", seed=0, completed=1000, moved=0, preemptions=3, ttft_mean=0.1, ttft_p50=0.08,
    ttft_p99=0.4, tpot_p50=0.02, tpot_p99=0.04, e2e_mean=3.0, e2e_p50=2.8, e2e_p99=6.0,
    goodput=0.97, hit_rate=0.0, imbalance=0.2, decision_microseconds=31.0,
    frontend_shares=[1.0, 1.0, 1.0, 1.0],
)  # fmt: skip


def outcome(**fields: Any) -> Outcome:
    """An outcome with these fields; the others are the same in all."""
    return msgspec.structs.replace(_ONE, **fields)


def seeds_of(policy: str, *ttft_means: float, **fields: Any) -> list[Outcome]:
    """One outcome a seed, with these mean times to the first token."""
    return [
        outcome(policy=policy, seed=seed, ttft_mean=ttft_mean, **fields)
        for seed, ttft_mean in enumerate(ttft_means)
    ]


def verdict(line: str, passed: bool) -> Verdict:
    """A pass line that holds or does not."""
    return Verdict(line, "0.98 (0.95–1.01)", passed)
