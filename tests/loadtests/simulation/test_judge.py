"""Pass lines, from made-up outcomes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtests.simulation.judge import AS_IN_PRODUCTION, NO_WORSE, Verdict, judge, mean_interval
from loadtests.simulation.outcome import Outcome


def outcome(
    policy: str,
    workload: str,
    ttft: float,
    seed: int = 0,
    age: float = 0.1,
    scenario: str = AS_IN_PRODUCTION,
) -> Outcome:
    return Outcome(
        policy=policy, workload=workload, load=0.8, engines=8, frontends=4, age_seconds=age,
        scenario=scenario, seed=seed, completed=1, moved=0, preemptions=0, ttft_mean=ttft,
        ttft_p50=ttft, ttft_p99=ttft, tpot_p50=0.0, tpot_p99=0.0, e2e_p50=1.0, e2e_p99=1.0,
        goodput=1.0, hit_rate=0.0, imbalance=0.0, decision_microseconds=1.0,
    )  # fmt: skip


def verdict_on(line: str, outcomes: list[Outcome]) -> Verdict:
    (verdict,) = [verdict for verdict in judge(outcomes) if verdict.line.startswith(line)]
    return verdict


@pytest.mark.parametrize(
    ("line", "workload", "against", "limit"),
    [
        ("uniform: no worse than round robin", "uniform", "round-robin", NO_WORSE),
        ("heavy tail: 15 %", "heavy-tail", "vllm", 0.85),
        ("long prompts: 30 %", "long-prompts", "vllm", 0.7),
        ("prefixes: a third", "prefix-groups", "vllm", 1 / 3),
        ("uniform: within 10 %", "uniform", "oracle", 1.1),
        ("heavy tail: within 10 %", "heavy-tail", "oracle", 1.1),
        ("kv-bound: never worse", "kv-bound", "vllm", NO_WORSE),
    ],
)
def test_each_line_has_its_limit(line: str, workload: str, against: str, limit: float) -> None:
    peer = outcome(against, workload, 1.0)
    assert verdict_on(line, [outcome("marginal-cost", workload, 0.99 * limit), peer]).passed
    assert not verdict_on(line, [outcome("marginal-cost", workload, 1.01 * limit), peer]).passed


def test_runs_are_compared_seed_by_seed() -> None:
    ours = [outcome("marginal-cost", "heavy-tail", 0.5 * seed, seed) for seed in (1, 2, 9)]
    peers = [outcome("vllm", "heavy-tail", float(seed), seed) for seed in (1, 2, 9)]
    verdict = verdict_on("heavy tail: 15 %", ours + peers)
    assert (verdict.ratio, verdict.low, verdict.high, verdict.seeds) == (0.5, 0.5, 0.5, 3)


def test_a_line_without_both_sides_is_not_judged() -> None:
    assert (
        judge([outcome("marginal-cost", "uniform", 1.0), outcome("vllm", "uniform", 1.0, 1)]) == []
    )


def test_harm_at_another_age_is_seen() -> None:
    outcomes = [
        outcome(policy, "heavy-tail", ttft, age=age, scenario="equal")
        for age in (0.02, 0.1, 0.5, 2.0)
        for policy, ttft in (("marginal-cost", 1.0 if age < 0.5 else 1.1), ("vllm", 1.0))
    ]
    harmless = {v.line: v.passed for v in judge(outcomes) if "never worse" in v.line}
    assert list(harmless.values()) == [True, True, False]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=6))
def test_an_interval_holds_its_mean_and_is_the_same_each_time(values: list[float]) -> None:
    interval = mean_interval(values)
    assert interval.low <= interval.mean + 1e-9
    assert interval.high >= interval.mean - 1e-9
    assert mean_interval(values) == interval


def test_an_interval_is_wider_where_values_lie_apart() -> None:
    narrow, wide = mean_interval([1.0, 1.01, 0.99, 1.0]), mean_interval([1.0, 1.5, 0.5, 1.0])
    assert narrow.high - narrow.low < wide.high - wide.low
