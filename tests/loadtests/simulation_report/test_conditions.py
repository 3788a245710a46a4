"""What is compared with what."""

from loadtests.simulation.report.conditions import by_condition, main_conditions, sweeps_over
from tests.loadtests.simulation_report.made_up import outcome, seeds_of


def test_only_policy_and_seed_may_differ_within_a_condition() -> None:
    alike = [*seeds_of("vllm", 0.2, 0.3), *seeds_of("random", 0.4)]
    others = [
        outcome(load=0.95),
        outcome(age_seconds=0.5),
        outcome(scenario="slow engine"),
        outcome(workload="heavy-tail"),
        outcome(engines=10),
        outcome(frontends=1, frontend_shares=[1.0]),
        outcome(frontend_shares=[8.0, 4.0, 2.0, 1.0]),
    ]
    first, *rest = by_condition([*alike, *others]).values()
    assert {policy: len(runs) for policy, runs in first.items()} == {"vllm": 2, "random": 1}
    assert rest == [{"marginal-cost": [other]} for other in others]


def test_the_main_condition_is_the_one_with_most_runs() -> None:
    runs = [
        outcome(load=0.6), *seeds_of("vllm", 0.1, 0.1), outcome(load=0.95),
        outcome(workload="heavy-tail", load=0.95),
    ]  # fmt: skip
    conditions = main_conditions(runs)
    assert [(c.workload, c.load) for c in conditions] == [("uniform", 0.8), ("heavy-tail", 0.95)]


def test_a_sweep_is_the_longest_series_in_which_one_field_differs() -> None:
    runs = [
        *(outcome(load=load) for load in (0.95, 0.6, 0.8)),
        *(outcome(load=load, age_seconds=0.5) for load in (0.6, 0.8)),
        outcome(workload="heavy-tail"),
        outcome(load=0.6, policy="random"),
    ]
    (sweep,) = sweeps_over(runs, "load")
    assert list(sweep.points) == [0.6, 0.8, 0.95]
    assert sweep.workload == "uniform"
    assert sweep.policies == ["marginal-cost"]  # one point is no line
    (by_age,) = sweeps_over(runs, "age_seconds")
    assert list(by_age.points) == [0.1, 0.5]
    assert sweeps_over(runs, "frontends") == []


def test_unequal_frontends_are_no_point_of_a_sweep_over_equal_ones() -> None:
    runs = [outcome(frontends=number, frontend_shares=[1.0] * number) for number in (1, 4, 16)] + [
        outcome(frontends=8, frontend_shares=[8.0, *[1.0] * 7])
    ]
    (sweep,) = sweeps_over(runs, "frontends")
    assert list(sweep.points) == [1, 4, 16]
