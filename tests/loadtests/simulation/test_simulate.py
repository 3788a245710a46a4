"""Whole runs, short ones: what the cluster of a simulation does as a real one would."""

import msgspec
import pytest
from msgspec.structs import replace

from frontend.balancer import POLICIES
from loadtests.simulation.outcome import Outcome
from loadtests.simulation.scenario import Fault, Scenario
from loadtests.simulation.simulate import simulate, simulate_all
from loadtests.simulation.workloads import WORKLOADS

SHORT = Scenario(policy="marginal-cost", workload="uniform", engines=3, seconds=6.0)
ONE_FRONTEND = (1.0,)


def simulated(outcome: Outcome) -> Outcome:
    """Without what depends on this machine."""
    return replace(outcome, decision_microseconds=0.0)


@pytest.mark.parametrize("policy", [*POLICIES, "oracle"])
def test_every_policy_serves_every_request(policy: str) -> None:
    outcome = simulate(replace(SHORT, policy=policy))
    assert outcome.completed == outcome.requests > 100


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_workload_is_served_to_its_end(workload: str) -> None:
    outcome = simulate(replace(SHORT, workload=workload))
    assert outcome.completed == outcome.requests > 0
    assert outcome.ttft_p50 <= outcome.ttft_p99 <= outcome.e2e_p99


def test_equal_scenarios_have_equal_outcomes_and_another_seed_has_another() -> None:
    first, again = simulate(SHORT), simulate(SHORT)
    assert simulated(first) == simulated(again)
    assert simulated(simulate(replace(SHORT, seed=1))) != simulated(first)


def test_every_policy_gets_the_same_requests() -> None:
    ours, peers = simulate(SHORT), simulate(replace(SHORT, policy="random"))
    assert (ours.requests, ours.hit_rate) == (peers.requests, peers.hit_rate)


def test_outcomes_of_several_processes_are_those_of_one_in_the_same_order() -> None:
    scenarios = [replace(SHORT, seed=seed, seconds=2.0) for seed in range(3)]
    together = simulate_all(scenarios, processes=2)
    assert [simulated(o) for o in together] == [simulated(simulate(s)) for s in scenarios]


def test_an_outcome_is_json_and_back() -> None:
    outcome = simulate(replace(SHORT, workload="flood", seconds=3.0))
    assert outcome.ttft_mean_by_tenant.keys() == {"anna", "bela", "cleo", "flood"}
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=Outcome) == outcome


# ── what is known of such systems ──


def test_more_load_takes_longer() -> None:
    ttft = [simulate(replace(SHORT, load=load)).ttft_mean for load in (0.5, 0.9, 1.4)]
    assert ttft == sorted(ttft)


def test_balancing_beats_chance() -> None:
    chance = simulate(replace(SHORT, policy="random"))
    ours = simulate(SHORT)
    assert ours.ttft_mean < chance.ttft_mean
    assert ours.imbalance < chance.imbalance


def test_old_news_does_harm_to_who_trusts_it() -> None:
    peer = replace(SHORT, policy="least-inflight")
    young, old = (simulate(replace(peer, age_seconds=age)) for age in (0.02, 0.5))
    assert young.ttft_mean < old.ttft_mean


def test_a_prefix_policy_finds_more_in_caches_than_round_robin() -> None:
    prefixes = replace(SHORT, workload="prefix-groups", load=0.3, seconds=20.0)
    ours, peer = simulate(prefixes), simulate(replace(prefixes, policy="round-robin"))
    assert ours.hit_rate > peer.hit_rate + 0.05


def test_an_engine_at_half_speed_gets_less() -> None:
    slow = replace(SHORT, fault=Fault.SLOW, load=0.6)
    assert simulate(slow).ttft_mean < simulate(replace(slow, policy="round-robin")).ttft_mean


def test_what_is_not_as_usual_is_in_the_name_of_the_scenario() -> None:
    assert SHORT.title == "equal"
    unequal = replace(SHORT, frontend_shares=(8.0, 1.0), reports_with_outputs=True)
    assert unequal.title == "equal, traffic 8:1, reports with outputs"
    assert simulate(replace(unequal, seconds=1.0)).scenario == unequal.title


# ── faults ──


@pytest.mark.parametrize("fault", [Fault.DEAD, Fault.HUNG])
def test_the_requests_of_an_engine_that_fails_move_and_end(fault: Fault) -> None:
    outcome = simulate(replace(SHORT, fault=fault, seconds=10.0, load=0.6))
    assert outcome.completed == outcome.requests
    assert outcome.moved > 10


def test_the_requests_of_the_only_engine_wait_for_the_next_one() -> None:
    alone = replace(SHORT, engines=1, fault=Fault.DEAD, load=0.5, frontend_shares=ONE_FRONTEND)
    outcome = simulate(alone)
    assert outcome.completed == outcome.requests
    assert outcome.held > 0
    assert outcome.ttft_p99 > 0.5


def test_a_request_that_no_cache_can_hold_is_refused_and_counted() -> None:
    small = replace(SHORT.cost_model, kv_capacity_tokens=600)
    outcome = simulate(replace(SHORT, cost_model=small, load=0.001, seconds=100.0))
    assert outcome.refused == outcome.requests > 0
    assert outcome.completed == 0
