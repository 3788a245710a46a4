"""Trials of one policy under one load, in brief: the median of the rounds, and how far they differ."""

from collections.abc import Sequence
from statistics import median

import msgspec

from loadtests.comparison.trial import Trial
from loadtests.report import Distribution


class Measure(msgspec.Struct, frozen=True):
    """One figure over the rounds."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Measure":
        """Of at least one value."""
        return cls(median(values), min(values), max(values))


class PolicySummary(msgspec.Struct, frozen=True, kw_only=True):
    """One policy under one load."""

    load: str
    policy: str
    ttft_mean_seconds: Measure
    ttft_p50_seconds: Measure
    ttft_p99_seconds: Measure
    itl_p50_seconds: Measure
    itl_p99_seconds: Measure
    e2e_mean_seconds: Measure
    hit_share: Measure
    busiest_share: Measure
    """Requests of the busiest engine over the mean engine's."""
    engine_requests: list[int]
    """By rank, all rounds together."""
    processor_share: Measure
    requests: int
    """All rounds together."""
    failed_requests: int
    goodput_lost: float | None
    """The worst of the rounds."""


def summarize(trials: Sequence[Trial]) -> PolicySummary:
    """The trials, at least one, of one policy under one load."""
    reports = [trial.report for trial in trials]
    ttft = [_present(report.ttft_seconds) for report in reports]
    itl = [_present(report.itl_seconds) for report in reports]
    e2e = [_present(report.e2e_seconds) for report in reports]
    lost = [trial.goodput_lost for trial in trials if trial.goodput_lost is not None]
    return PolicySummary(
        load=trials[0].load,
        policy=trials[0].policy,
        ttft_mean_seconds=Measure.of([each.mean for each in ttft]),
        ttft_p50_seconds=Measure.of([each.p50 for each in ttft]),
        ttft_p99_seconds=Measure.of([each.p99 for each in ttft]),
        itl_p50_seconds=Measure.of([each.p50 for each in itl]),
        itl_p99_seconds=Measure.of([each.p99 for each in itl]),
        e2e_mean_seconds=Measure.of([each.mean for each in e2e]),
        hit_share=Measure.of([trial.hit_share for trial in trials]),
        busiest_share=Measure.of([_busiest_share(trial.engine_requests) for trial in trials]),
        engine_requests=_added([trial.engine_requests for trial in trials]),
        processor_share=Measure.of([trial.processor_share for trial in trials]),
        requests=sum(report.requests for report in reports),
        failed_requests=sum(report.requests - report.completed for report in reports),
        goodput_lost=max(lost, default=None),
    )


def _added(by_trial: Sequence[Sequence[int]]) -> list[int]:
    """The sums, rank by rank."""
    return [sum(rank) for rank in zip(*by_trial, strict=True)]


def _busiest_share(engine_requests: Sequence[int]) -> float:
    total = sum(engine_requests)
    return max(engine_requests) * len(engine_requests) / total if total else 1.0


def _present(values: Distribution | None) -> Distribution:
    """NaN in place of figures of which there are none: no answer was whole."""
    nan = float("nan")
    return values if values is not None else Distribution(nan, nan, nan, nan, nan)
