import pickle
import random
from collections import Counter
from typing import get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.config import FrontendConfig
from frontend.balancer import POLICIES, Balancer
from frontend.engine_book import Charge
from frontend.routing.view import EngineChoice, RoutedRequest, RoutingView
from tests.frontend.routing.loads import NOTHING, any_requests, any_views, engine, silent_engine

every_policy = pytest.mark.parametrize("policy", POLICIES)


def balancer(policy: str = "marginal-cost", seed: int = 0) -> Balancer:
    return Balancer(policy, random.Random(seed))


def choose(one: Balancer, view: RoutingView, request: RoutedRequest) -> EngineChoice:
    choice = one.choose(view, request)
    assert choice is not None
    return choice


def test_every_policy_that_can_be_configured_exists() -> None:
    offered = get_args(get_type_hints(FrontendConfig)["routing"])
    assert set(offered) <= set(POLICIES)


@every_policy
def test_without_engines_there_is_no_choice(policy: str) -> None:
    assert balancer(policy).choose(RoutingView([], 1), RoutedRequest(10)) is None


@every_policy
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_whatever_the_numbers_are_one_of_the_engines_is_chosen(
    policy: str, data: st.DataObject
) -> None:
    one = balancer(policy, data.draw(st.integers(0, 100)))
    for view in data.draw(st.lists(any_views(), min_size=1, max_size=3)):
        choice = choose(one, view, data.draw(any_requests(view)))
        ranks = {load.rank for load in view.loads}
        assert choice.rank in ranks
        assert choice.rank not in choice.left_out
        assert set(choice.left_out) | set(choice.scores) <= ranks


@every_policy
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_a_choice_follows_from_what_is_known_and_the_random_source(
    policy: str, data: st.DataObject
) -> None:
    view = data.draw(any_views())
    request = data.draw(any_requests(view))
    first, second = (
        [choose(one, view, request) for _ in range(3)] for one in (balancer(policy), balancer(policy))
    )  # fmt: skip
    assert first == second


@every_policy
def test_a_policy_remembers_no_more_after_many_choices_than_after_a_few(policy: str) -> None:
    one = balancer(policy)

    def remembered_bytes(rounds: range) -> int:
        for seq in rounds:
            view = RoutingView([engine(rank, report_seq=seq) for rank in range(8)], 2, now=seq)
            choose(one, view, RoutedRequest(10))
        return len(pickle.dumps(one))

    assert remembered_bytes(range(1000, 3000)) < remembered_bytes(range(1000, 1200)) + 100


@every_policy
def test_every_policy_uses_every_engine(policy: str) -> None:
    one = balancer(policy)
    view = RoutingView([engine(0), engine(1), engine(2)], 1)
    assert {choose(one, view, RoutedRequest(10)).rank for _ in range(100)} == {0, 1, 2}


@pytest.mark.parametrize("policy", ["marginal-cost", "least-inflight", "lmetric"])
@pytest.mark.parametrize("has_reports", [True, False])
def test_the_first_burst_spreads_evenly(policy: str, has_reports: bool) -> None:
    sent = [NOTHING] * 4
    one, counts = balancer(policy), Counter[int]()
    make = engine if has_reports else silent_engine
    for _ in range(40):
        view = RoutingView([make(rank, sent=sent[rank]) for rank in range(4)], num_frontends=2)
        rank = choose(one, view, RoutedRequest(50)).rank
        counts[rank] += 1
        sent[rank] = sent[rank].plus(Charge(1, 50, 50))
    assert set(counts.values()) == {10}


def test_the_first_burst_of_many_frontends_spreads_too() -> None:
    """Nobody sees what the others send: it is chance that keeps them apart."""
    counts = Counter[int]()
    for seed in range(400):
        view = RoutingView([silent_engine(rank) for rank in range(4)], num_frontends=400)
        counts[choose(balancer(seed=seed), view, RoutedRequest(50)).rank] += 1
    assert all(60 <= counts[rank] <= 140 for rank in range(4))
