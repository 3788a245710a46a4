"""Whether the default policy keeps its lines. Pure: trials in, verdicts out."""

from collections.abc import Sequence
from statistics import median

import msgspec

from loadtests.comparison.load_plan import CANDIDATE, GoodputLine, LoadPlan, RatioLine
from loadtests.comparison.trial import Trial

LEAST_NOISE, MOST_NOISE = 0.05, 0.15
"""Rounds that agree by chance prove no precision; on a machine where they differ more, `no worse`
cannot be told, and is not granted."""


class Verdict(msgspec.Struct, frozen=True):
    """One line, and whether it was kept; None where the run cannot tell."""

    load: str
    promise: str
    passed: bool | None
    found: str


def judge(plan: LoadPlan, trials: Sequence[Trial]) -> Verdict:
    """The verdict on a load's line, from the load's own trials."""
    match plan.line:
        case RatioLine():
            return _judge_ratio(plan.name, plan.line, trials)
        case GoodputLine():
            return _judge_goodput(plan.name, plan.line, trials)


def ttft_ratios(trials: Sequence[Trial], policy: str, baseline: str) -> list[float]:
    """Mean TTFT of one policy over that of another, round by round.

    The arrivals of a round are the same for all policies, so what is special about them cancels.
    """
    one, other = _means_by_round(trials, policy), _means_by_round(trials, baseline)
    return [one[number] / other[number] for number in sorted(one.keys() & other.keys())]


def noise_of(ratios: Sequence[float]) -> float:
    """How far off their median may be by chance: half of what the rounds differ by, within bounds."""
    return min(MOST_NOISE, max(LEAST_NOISE, (max(ratios) - min(ratios)) / 2))


def _judge_ratio(load: str, line: RatioLine, trials: Sequence[Trial]) -> Verdict:
    limit = f"at most {line.most_ratio:g}" + (" within noise" if line.allows_noise else "")
    promise = f"mean TTFT of {CANDIDATE} over that of {line.baseline}: {limit}"
    ratios = ttft_ratios(trials, CANDIDATE, line.baseline)
    if not ratios:
        return Verdict(load, promise, None, f"needs both {CANDIDATE} and {line.baseline}")
    ratio = median(ratios)
    found = f"{ratio:.2f}, rounds {min(ratios):.2f} to {max(ratios):.2f}"
    noise = noise_of(ratios) if line.allows_noise else 0.0
    if line.allows_noise:
        found += f", noise {noise:.2f}"
    return Verdict(load, promise, ratio <= line.most_ratio + noise, found)


def _judge_goodput(load: str, line: GoodputLine, trials: Sequence[Trial]) -> Verdict:
    promise = f"goodput of {CANDIDATE} lost without a coordinator: at most {line.most_lost:.0%}"
    lost = [t.goodput_lost for t in trials if t.policy == CANDIDATE and t.goodput_lost is not None]
    if not lost:
        return Verdict(load, promise, None, f"needs {CANDIDATE}")
    return Verdict(load, promise, median(lost) <= line.most_lost, f"{median(lost):.1%}")


def _means_by_round(trials: Sequence[Trial], policy: str) -> dict[int, float]:
    return {
        trial.round: trial.report.ttft_seconds.mean
        for trial in trials
        if trial.policy == policy and trial.report.ttft_seconds is not None
    }
