import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.wire.messages import EngineDeath, FlightRecord
from frontend.suspicion import (
    FIRST_WINDOW_TOKENS,
    LATER_WINDOW_TOKENS,
    Suspicions,
    Verdict,
    Victim,
)
from tests.support.poisoned_cluster import PoisonedCluster, SimulatedRequest

MAX_ROUNDS = 20_000
MOVES, IS_SUSPECT, FAILS, IS_CONVICTED = Verdict


def victims(*names: str, outputs: int = 10, isolated: bool = False) -> list[Victim]:
    return [Victim(name, outputs, outputs > 0, isolated) for name in names]


def death(
    *in_step: str, prefill: tuple[str, ...] = (), incarnation: int = 1, fault: bool = True
) -> EngineDeath:
    flight = FlightRecord(list(in_step), list(prefill))
    return EngineDeath(0, incarnation, "SIGSEGV", fault, flight)


def test_an_outside_kill_is_held_against_nobody() -> None:
    suspicions = Suspicions(0)
    killed = death("a", prefill=("a",), fault=False)
    assert suspicions.judge(killed, victims("a", "b", isolated=True)) == {"a": MOVES, "b": MOVES}


def test_who_was_in_prefill_is_set_apart_and_who_was_not_there_is_free() -> None:
    suspicions = Suspicions(2)
    verdicts = suspicions.judge(death("a", "b", prefill=("a",)), victims("a", "b", "c"))
    assert verdicts == {"a": IS_SUSPECT, "b": MOVES, "c": MOVES}
    assert suspicions.isolated_until("a") == 10 + FIRST_WINDOW_TOKENS
    assert [suspicions.isolated_until(name) for name in "bc"] == [0, 0]


def test_the_second_death_of_a_decoding_request_sets_it_apart_for_longer() -> None:
    suspicions = Suspicions(2)
    suspicions.judge(death("a", "b"), victims("a", "b"))
    verdicts = suspicions.judge(death("a", "c", incarnation=2), victims("a", "c"))
    assert verdicts == {"a": IS_SUSPECT, "c": MOVES}
    assert suspicions.isolated_until("a") == 10 + LATER_WINDOW_TOKENS


def test_who_kills_alone_in_isolation_is_convicted_and_all_others_are_acquitted() -> None:
    suspicions = Suspicions(2)
    suspicions.judge(death("a", "b", prefill=("a", "b")), victims("a", "b"))
    assert len(suspicions) == 2
    again = death("a", prefill=("a",), incarnation=2)
    assert suspicions.judge(again, victims("a", "c", isolated=True)) == {
        "a": IS_CONVICTED,
        "c": MOVES,
    }
    assert suspicions.deaths_of("a") == {(0, 1), (0, 2)}
    assert suspicions.deaths_of("b") == set()
    assert suspicions.isolated_until("b") == 0


@pytest.mark.parametrize("flight", [None, FlightRecord([])])
def test_without_a_record_nobody_is_known_to_be_alone(flight: FlightRecord | None) -> None:
    suspicions = Suspicions(2)
    unrecorded = EngineDeath(0, 1, "SIGSEGV", fault=True, flight=flight)
    verdict = suspicions.judge(unrecorded, victims("a", isolated=True))["a"]
    assert verdict is not IS_CONVICTED
    assert suspicions.deaths_of("a") == {(0, 1)}


def test_without_a_record_those_without_an_output_are_set_apart() -> None:
    unrecorded = EngineDeath(0, 1, "SIGSEGV", fault=True)
    both = [*victims("a", outputs=0), *victims("b")]
    assert Suspicions(2).judge(unrecorded, both) == {"a": IS_SUSPECT, "b": MOVES}


def test_too_many_deaths_end_a_request_without_a_conviction() -> None:
    suspicions = Suspicions(2)
    verdicts = []
    for incarnation in (1, 2, 3):
        shared = death("a", "b", incarnation=incarnation)
        verdicts.append(suspicions.judge(shared, victims("a"))["a"])
        suspicions.clear("a", 1000)
    assert verdicts == [MOVES, IS_SUSPECT, FAILS]


def test_nobody_fails_while_another_is_on_trial_for_the_same_death() -> None:
    suspicions = Suspicions(1)
    suspicions.judge(death("a", "b"), victims("a", "b"))
    suspicions.judge(death("b", "c", incarnation=2, prefill=("b",)), victims("c"))
    suspicions.judge(death("b", "d", incarnation=3, prefill=("d",)), victims("d"))
    assert suspicions.judge(death("a", "d", incarnation=3), victims("a"))["a"] is IS_SUSPECT


def test_a_suspect_that_gets_past_the_point_is_cleared_once() -> None:
    suspicions = Suspicions(2)
    suspicions.judge(death("a", prefill=("a",)), victims("a", outputs=0))
    assert not suspicions.clear("a", FIRST_WINDOW_TOKENS - 1)
    assert suspicions.clear("a", FIRST_WINDOW_TOKENS)
    assert not suspicions.clear("a", FIRST_WINDOW_TOKENS + 1)
    assert suspicions.deaths_of("a") == {(0, 1)}


def test_a_late_verdict_counts_a_death_once() -> None:
    suspicions = Suspicions(2)
    for _ in range(3):
        suspicions.judge(death("a"), victims("a"))
    assert suspicions.deaths_of("a") == {(0, 1)}


# ── whole clusters ──

POISONS = st.lists(st.sampled_from([-1, -1, 0, 1, 3, 12]), min_size=1, max_size=4)


def run(cluster: PoisonedCluster, until_ended: list[SimulatedRequest]) -> None:
    for _ in range(MAX_ROUNDS):
        if all(request.is_done for request in until_ended):
            return
        cluster.run_round()
    raise AssertionError("not all requests end")


def bound(strikes_at: int) -> int:
    return 2 if strikes_at == -1 else 3


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 4), st.integers(1, 3), POISONS)
def test_poisons_that_come_one_after_the_other_cost_no_innocent(
    seed: int, num_engines: int, num_frontends: int, poisons: list[int]
) -> None:
    cluster = PoisonedCluster(seed, num_engines, num_frontends, outside_kills=0.01)
    innocents = [cluster.submit(length) for length in range(5, 125, 10)]
    for strikes_at in poisons:
        poison = cluster.submit(30, strikes_at)
        run(cluster, [poison])
        assert poison.verdict is IS_CONVICTED
        assert poison.num_kills <= bound(strikes_at)
    run(cluster, innocents)
    assert [request.verdict for request in innocents] == [None] * len(innocents)
    assert cluster.num_fault_deaths <= sum(map(bound, poisons))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 4), st.integers(1, 3), POISONS)
def test_poisons_that_come_together_stay_within_their_bounds_and_convict_nobody_else(
    seed: int, num_engines: int, num_frontends: int, poisons: list[int]
) -> None:
    cluster = PoisonedCluster(seed, num_engines, num_frontends, outside_kills=0.01)
    innocents = [cluster.submit(length) for length in range(5, 125, 10)]
    poisonous = [cluster.submit(30, strikes_at) for strikes_at in poisons]
    run(cluster, cluster.requests)
    assert all(request.verdict is not IS_CONVICTED for request in innocents)
    assert all(request.verdict is not None for request in poisonous)
    assert cluster.num_fault_deaths <= sum(map(bound, poisons))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 3), st.integers(1, 3), POISONS)
def test_late_and_missing_records_convict_nobody_innocent_and_every_poison_ends(
    seed: int, num_engines: int, num_frontends: int, poisons: list[int]
) -> None:
    cluster = PoisonedCluster(
        seed, num_engines, num_frontends, outside_kills=0.01, late=0.7, unrecorded=0.3
    )
    innocents = [cluster.submit(length) for length in range(5, 65, 10)]
    poisonous = [cluster.submit(30, strikes_at) for strikes_at in poisons]
    run(cluster, cluster.requests)
    assert all(request.verdict is not IS_CONVICTED for request in innocents)
    assert all(request.verdict is not None for request in poisonous)
