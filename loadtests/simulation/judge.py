"""Whether the default policy keeps what it promises: outcomes in, pass lines out. Pure."""

import random
from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from statistics import fmean
from typing import NamedTuple

import msgspec

from loadtests.simulation.cluster import ORACLE
from loadtests.simulation.outcome import Outcome
from loadtests.simulation.scenario import Fault, Scenario

OURS, PEER, ROUND_ROBIN = "marginal-cost", "vllm", "round-robin"
NO_WORSE = 1.02
"""Noise that two policies may differ by and be called no worse than each other."""
MOST_AGE_SECONDS = 0.5
AS_IN_PRODUCTION = Scenario(policy=OURS, workload="", reports_with_outputs=True).title
NUM_RESAMPLES = 1000
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A mean, and where it lies with a confidence of 95 %."""

    mean: float
    low: float
    high: float


class Verdict(msgspec.Struct, frozen=True):
    """What became of one pass line."""

    line: str
    """What is promised, in words."""
    measured: str
    """What there is instead, in words."""
    passed: bool
    """Whether the mean is within the limit."""
    against: str = ""
    """The policy whose mean TTFT ours is divided by."""
    ratio: float = 0.0
    """Mean over the seeds; below 1 ours is faster."""
    low: float = 0.0
    high: float = 0.0
    limit: float = 0.0
    """The most that the ratio may be."""
    seeds: int = 0


class PassLine(NamedTuple):
    """What is promised."""

    name: str
    workload: str
    against: str
    limit: float


PASS_LINES = (
    PassLine("uniform: no worse than round robin", "uniform", ROUND_ROBIN, NO_WORSE),
    PassLine("heavy tail: 15 % lower than vllm", "heavy-tail", PEER, 0.85),
    PassLine("long prompts: 30 % lower than vllm", "long-prompts", PEER, 0.7),
    PassLine("prefixes: a third of vllm", "prefix-groups", PEER, 1 / 3),
    PassLine("uniform: within 10 % of the oracle", "uniform", ORACLE, 1.1),
    PassLine("heavy tail: within 10 % of the oracle", "heavy-tail", ORACLE, 1.1),
)


def judge(outcomes: Sequence[Outcome]) -> list[Verdict]:
    """The verdicts on all pass lines that these outcomes have both sides of.

    Reports travel as in production; but that no age of data does harm is judged where nothing else
    tells of the engines.
    """
    usual = [o for o in outcomes if o.scenario == AS_IN_PRODUCTION and o.age_seconds == 0.1]
    lines = (*PASS_LINES, *_lines_of_no_harm(usual, "reports as in production"))
    verdicts = [_verdict(line, usual) for line in lines]
    aged = [o for o in outcomes if o.scenario == Fault.EQUAL and o.age_seconds <= MOST_AGE_SECONDS]
    for age in sorted({outcome.age_seconds for outcome in aged}):
        here = [outcome for outcome in aged if outcome.age_seconds == age]
        lines = (*_lines_of_no_harm(here, f"data {age * 1000:g} ms old"),)
        verdicts += [_verdict(line, here) for line in lines]
    return [verdict for verdict in verdicts if verdict is not None]


def _lines_of_no_harm(outcomes: Iterable[Outcome], condition: str) -> Iterator[PassLine]:
    """Never worse than the peer, on whatever was run."""
    for workload in dict.fromkeys(outcome.workload for outcome in outcomes):
        name = f"{workload}: never worse than vllm, {condition}"
        yield PassLine(name, workload, PEER, NO_WORSE)


def _verdict(line: PassLine, outcomes: Iterable[Outcome]) -> Verdict | None:
    here = [outcome for outcome in outcomes if outcome.workload == line.workload]
    ours, theirs = _by_run(here, OURS), _by_run(here, line.against)
    ratios = [ours[run] / theirs[run] for run in ours.keys() & theirs.keys() if theirs[run] > 0]
    if not ratios:
        return None
    ratio, low, high = mean_interval(ratios)
    measured = f"{ratio:.2f} ({low:.2f}–{high:.2f}) × {line.against}"
    return Verdict(
        line.name, measured, ratio <= line.limit,
        line.against, ratio, low, high, line.limit, len(ratios),
    )  # fmt: skip


Run = tuple[int, float, int, int, float]


def _by_run(outcomes: Iterable[Outcome], policy: str) -> dict[Run, float]:
    """The mean TTFT by all else that a run depends on: two policies are compared on equal requests."""
    return {
        (o.seed, o.load, o.engines, o.frontends, o.seconds): o.ttft_mean
        for o in outcomes
        if o.policy == policy
    }


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean and its bootstrap-t interval (Efron and Tibshirani, 1993); equal for equal values.

    A resample of few values varies less than they do, so it is measured in its own standard errors.
    """
    mean = fmean(values)
    if len(values) < 3 or min(values) == max(values):
        return Interval(mean, min(values), max(values))
    source = random.Random(0)
    resamples = (source.choices(values, k=len(values)) for _ in range(NUM_RESAMPLES))
    scores = sorted(
        (sum(resample) / len(resample) - mean) / _standard_error(resample)
        for resample in resamples
        if min(resample) < max(resample)
    )
    error = _standard_error(values)
    tail = round(len(scores) * (1 - CONFIDENCE) / 2)
    return Interval(mean, mean - scores[-1 - tail] * error, mean - scores[tail] * error)


def _standard_error(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)  # `statistics` is exact, and a hundred times as slow
    squares = sum((value - mean) ** 2 for value in values)
    return sqrt(squares / (len(values) - 1) / len(values))
