import pytest

from loadtests.comparison.load_plan import SIMULATED, LoadPlan
from loadtests.comparison.verdict import LEAST_NOISE, MOST_NOISE, judge, noise_of, ttft_ratios
from tests.loadtests.comparison.made_up import trial

PLANS = {plan.name: plan for plan in SIMULATED.plans}
UNIFORM, PREFIX, AWAY = PLANS["uniform"], PLANS["prefix"], PLANS["coordinator-away"]


def passed(plan: LoadPlan, ours: list[float], baseline: str, theirs: list[float]) -> bool | None:
    """The verdict when rounds took these mean times."""
    trials = [trial("marginal-cost", mean, number=n) for n, mean in enumerate(ours)]
    trials += [trial(baseline, mean, number=n) for n, mean in enumerate(theirs)]
    return judge(plan, trials).passed


def test_twice_as_fast_is_half_the_time() -> None:
    assert passed(PREFIX, [0.1, 0.1], "vllm", [0.2, 0.2]) is True
    assert passed(PREFIX, [0.11, 0.11], "vllm", [0.2, 0.2]) is False


def test_rounds_are_compared_with_themselves() -> None:
    """A round with harder arrivals is hard for both."""
    assert passed(PREFIX, [0.1, 1.0], "vllm", [0.25, 2.5]) is True


@pytest.mark.parametrize(
    ("ours", "expected"),
    [([0.1, 0.1], True), ([0.104, 0.104], True), ([0.107, 0.107], False), ([0.1, 0.12], True)],
)
def test_no_worse_allows_for_what_rounds_differ_by(ours: list[float], expected: bool) -> None:
    assert passed(UNIFORM, ours, "round-robin", [0.1, 0.1]) is expected


def test_a_machine_on_which_nothing_can_be_told_grants_nothing() -> None:
    assert passed(UNIFORM, [0.08, 0.18], "round-robin", [0.1, 0.1]) is False


def test_noise_has_bounds() -> None:
    assert noise_of([1.0, 1.0]) == LEAST_NOISE
    assert noise_of([1.0, 1.2]) == pytest.approx(0.1)
    assert noise_of([1.0, 9.0]) == MOST_NOISE


def test_a_line_without_its_baseline_is_not_judged() -> None:
    assert judge(PREFIX, [trial("marginal-cost", 0.1)]).passed is None
    assert judge(AWAY, [trial("vllm", 0.1, goodput_lost=0.5)]).passed is None


def test_a_round_that_only_one_of_them_had_is_left_out() -> None:
    trials = [trial("vllm", 0.2), trial("marginal-cost", 0.1), trial("vllm", 9.0, number=1)]
    assert ttft_ratios(trials, "marginal-cost", "vllm") == [pytest.approx(0.5)]


@pytest.mark.parametrize(("lost", "expected"), [(0.0, True), (0.05, True), (0.06, False)])
def test_goodput_without_a_coordinator_has_a_limit(lost: float, expected: bool) -> None:
    found = judge(AWAY, [trial("marginal-cost", 0.1, goodput_lost=lost)])
    assert found.passed is expected


def test_every_load_has_a_line_that_some_run_can_be_held_to() -> None:
    for plan in SIMULATED.plans:
        trials = [
            trial(policy, 0.1, load=plan.name, goodput_lost=0.0)
            for policy in ("marginal-cost", "vllm", "round-robin")
        ]
        assert judge(plan, trials).passed is not None
