"""The whole comparison: each load, each round, each policy in its turn."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from loadtests.comparison.conversation import Conversation, make_conversations
from loadtests.comparison.load_plan import EngineKind, LoadPlan
from loadtests.comparison.policy_order import policy_order
from loadtests.comparison.summary import PolicySummary, summarize
from loadtests.comparison.trial import ClusterSetup, Trial, TrialPlan, run_trial
from loadtests.comparison.verdict import Verdict, judge

LEAST_CONVERSATIONS = 2


class ComparisonOptions(NamedTuple):
    """What `python -m loadtests compare-policies` was asked for."""

    kind: EngineKind
    engines: int
    frontends: int
    loads: Sequence[str]
    policies: Sequence[str]
    rounds: int
    requests: int | None
    """Of each trial; None: as many as come in the load's own time."""
    rate_factor: float
    seconds_factor: float
    """What the loads' own times are multiplied by."""
    seed: int

    @property
    def plans(self) -> list[LoadPlan]:
        """The loads, in the order of the catalog."""
        return [plan for plan in self.kind.plans if plan.name in self.loads]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of it."""

    engines: int
    frontends: int
    seed: int
    rounds: int
    summaries: list[PolicySummary]
    verdicts: list[Verdict]
    trials: list[Trial]

    @property
    def passed(self) -> bool:
        """Whether no request failed, no engine and no line."""
        has_failed = any(summary.failed_requests for summary in self.summaries)
        has_failed |= any(trial.report.engine_restarts for trial in self.trials)
        return not has_failed and all(verdict.passed is not False for verdict in self.verdicts)


def compare(options: ComparisonOptions, tell: Callable[[Trial], None]) -> Comparison:
    """Run every trial, and `tell` of each when it is over.

    Raises DrillError or BrokenConnection if a cluster cannot be used at all.
    """
    trials: list[Trial] = []
    for plan in options.plans:
        for number, policy in policy_order(options.policies, options.rounds):
            conversations = _conversations(plan, options, options.seed + number)
            trial = run_trial(_setup(plan, options), TrialPlan(plan, policy, number, conversations))
            trials.append(trial)
            tell(trial)
    return _conclude(options, trials)


def _conclude(options: ComparisonOptions, trials: Sequence[Trial]) -> Comparison:
    under = {plan.name: [t for t in trials if t.load == plan.name] for plan in options.plans}
    return Comparison(
        engines=options.engines,
        frontends=options.frontends,
        seed=options.seed,
        rounds=options.rounds,
        summaries=[
            summarize([trial for trial in under[plan.name] if trial.policy == policy])
            for plan in options.plans
            for policy in options.policies
        ],
        verdicts=[judge(plan, under[plan.name]) for plan in options.plans],
        trials=list(trials),
    )


def _setup(plan: LoadPlan, options: ComparisonOptions) -> ClusterSetup:
    """The load's flags come last: they go before those of its kind of engine."""
    return ClusterSetup(options.engines, options.frontends, (*options.kind.flags, *plan.flags))


def _conversations(plan: LoadPlan, options: ComparisonOptions, seed: int) -> list[Conversation]:
    requests_per_second = (
        plan.requests_per_second_per_engine * options.engines * options.rate_factor
    )
    requests = options.requests or plan.seconds * options.seconds_factor * requests_per_second
    number = max(LEAST_CONVERSATIONS, round(requests / plan.shape.turns))
    return make_conversations(plan.shape, number, requests_per_second / plan.shape.turns, seed)
