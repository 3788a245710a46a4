"""The figures as tables."""

from collections.abc import Sequence

from loadtests.frontend_lab.peer_comparison import LEAST_RATIO, PeerComparison
from loadtests.frontend_lab.stage_cost import StageCost
from loadtests.frontend_lab.summary import (
    CORES_FOR_SCALING,
    LEAST_SCALING,
    LEAST_TOKENS_PER_CORE_SECOND,
    Scaling,
    Throughput,
)

THROUGHPUT_HEAD = (
    "frontends  kind          tokens/s  requests/s  cores  events/token  tokens/core-s  µs/token"
)


def throughput_line(found: Throughput) -> str:
    """A row below `THROUGHPUT_HEAD`."""
    return (
        f"{found.frontends:>9}  {found.kind:<11}{found.tokens_per_second:>11.0f}"
        f"{found.requests_per_second:>12.1f}{found.cores_used:>7.2f}{found.events_per_token:>14.2f}"
        f"{found.tokens_per_core_second:>15.0f}{found.core_microseconds_per_token:>10.1f}"
        f"{'' if found.is_kept else f'  BELOW {LEAST_TOKENS_PER_CORE_SECOND}'}"
        f"{'  several at once' if found.is_behind else ''}"
    )


def scaling_line(found: Scaling) -> str:
    """The ratio in words."""
    line = f"{found.kind}: 4 frontends write {found.ratio:.2f} × the events of 2 (line {LEAST_SCALING})"
    return line if found.is_kept else f"{line}  MISSED"


def comparison_line(found: PeerComparison) -> str:
    """Both costs, and the ratio with its spread."""
    return (
        f"{found.ours.kind:<12} one frontend {found.ours.core_microseconds_per_token:.1f} µs/token, "
        f"{found.name} {found.theirs.core_microseconds_per_token:.1f}: "
        f"{found.ratio:.2f} × ({min(found.ratios):.2f} to {max(found.ratios):.2f}), "
        f"at least {LEAST_RATIO:g}{'' if found.is_kept else '  MISSED'}"
    )


def no_scaling_line(cores: int) -> str:
    """Why there is no ratio."""
    return (
        f"what 4 frontends do beside 2 is not judged: {cores} cores are fewer than the {CORES_FOR_SCALING} "
        "that frontends, engines and clients need"
    )


def stage_lines(costs: Sequence[StageCost]) -> list[str]:
    """One row a stage."""
    return [f"{cost.stage:<58}{cost.microseconds_per_token:>8.2f} µs" for cost in costs]
