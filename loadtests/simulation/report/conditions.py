"""Outcomes side by side: those that differ in nothing but the policy and the seed."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from loadtests.simulation.outcome import Outcome
from loadtests.simulation.scenario import Fault

SweptField = Literal["load", "age_seconds", "frontends"]


class Condition(NamedTuple):
    """Everything that two policies must have in common to be compared."""

    workload: str
    scenario: str
    load: float
    engines: int
    frontends: int
    age_seconds: float
    is_even: bool
    """Whether all frontends have the same traffic."""

    @classmethod
    def of(cls, outcome: Outcome) -> "Condition":
        """The condition of a run."""
        return cls(
            outcome.workload, outcome.scenario, outcome.load,
            outcome.engines, outcome.frontends, outcome.age_seconds,
            is_even=len(set(outcome.frontend_shares)) <= 1,
        )  # fmt: skip

    @property
    def words(self) -> str:
        """All but the workload, for the head of a table; of engines that are alike it says nothing."""
        unusual = self.scenario.removeprefix(Fault.EQUAL).removeprefix(", ")
        unevenly = "" if self.is_even else " of unequal traffic"
        return (
            f"{unusual}{', ' if unusual else ''}load {self.load:.0%}, {self.engines} engines, "
            f"{self.frontends} frontends{unevenly}, data {self.age_seconds * 1000:g} ms old"
        )


ByPolicy = dict[str, list[Outcome]]


def by_condition(outcomes: Sequence[Outcome]) -> dict[Condition, ByPolicy]:
    """Conditions in the order of their first runs, and in each the runs of every policy."""
    grouped: dict[Condition, ByPolicy] = {}
    for outcome in outcomes:
        policies = grouped.setdefault(Condition.of(outcome), {})
        policies.setdefault(outcome.policy, []).append(outcome)
    return grouped


def main_conditions(outcomes: Sequence[Outcome]) -> dict[Condition, ByPolicy]:
    """Of each workload and scenario the condition in which most was run."""
    chosen: dict[tuple[str, str], Condition] = {}
    grouped = by_condition(outcomes)
    for condition, policies in grouped.items():
        place = (condition.workload, condition.scenario)
        if place not in chosen or _num_runs(policies) > _num_runs(grouped[chosen[place]]):
            chosen[place] = condition
    return {condition: grouped[condition] for condition in chosen.values()}


def _num_runs(policies: ByPolicy) -> int:
    return sum(map(len, policies.values()))


class Sweep(NamedTuple):
    """Conditions that differ in one field alone."""

    workload: str
    scenario: str
    points: dict[float, ByPolicy]
    """By rising value of that field."""

    @property
    def policies(self) -> list[str]:
        """The policies that were run at more than one point."""
        counts: dict[str, int] = {}
        for policies in self.points.values():
            for policy in policies:
                counts[policy] = counts.get(policy, 0) + 1
        return [policy for policy, count in counts.items() if count > 1]


def sweeps_over(outcomes: Sequence[Outcome], field: SweptField) -> list[Sweep]:
    """Of each workload and scenario the longest series in which only this field differs."""
    series: dict[Condition, dict[float, ByPolicy]] = {}
    for condition, policies in by_condition(outcomes).items():
        others = Condition(**(condition._asdict() | {field: 0}))
        series.setdefault(others, {})[getattr(condition, field)] = policies
    longest: dict[tuple[str, str], dict[float, ByPolicy]] = {}
    for others, points in series.items():
        place = (others.workload, others.scenario)
        if len(points) > max(1, len(longest.get(place, {}))):
            longest[place] = points
    sweeps = [Sweep(*place, dict(sorted(points.items()))) for place, points in longest.items()]
    return [sweep for sweep in sweeps if sweep.policies]
