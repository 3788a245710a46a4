"""Policies of one condition against each other."""

from loadtests.simulation.report.conditions import ByPolicy
from loadtests.simulation.report.measures import TTFT_MEAN
from loadtests.simulation.report.palette import PEER
from loadtests.simulation.report.spread import Spread


def ranked(policies: ByPolicy) -> list[str]:
    """The policies, the one with the lowest mean time to first token first."""
    return sorted(policies, key=lambda policy: TTFT_MEAN.spread(policies[policy]).median)


def against_peer(policies: ByPolicy, policy: str) -> Spread | None:
    """Mean time to first token as a multiple of that of `vllm`, seed by seed.

    Equal seeds have equal arrivals, so what the arrivals are like cancels out. None for `vllm`
    itself, and where the two have no seed in common.
    """
    peers = {run.seed: run.ttft_mean for run in policies.get(PEER, []) if run.ttft_mean > 0}
    ratios = [run.ttft_mean / peers[run.seed] for run in policies[policy] if run.seed in peers]
    return Spread.of(ratios) if ratios and policy != PEER else None


def ratio_words(ratio: Spread | None) -> str:
    """Such a ratio as people say it: `−31 %`, or `÷ 4.2` from a half down."""
    if ratio is None:
        return "–"
    if ratio.median <= 0.5:
        return f"÷ {1 / ratio.median:.1f}"
    percent = round(100 * (ratio.median - 1))
    sign = "+" if percent > 0 else "−" if percent < 0 else "±"
    return f"{sign}{abs(percent)} %"
