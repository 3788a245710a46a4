import random

from frontend.engine_book import Charge
from frontend.routing.simple_policies import LeastInflight, RoundRobin
from frontend.routing.view import RoutedRequest, RoutingView
from tests.frontend.routing.loads import engine

REQUEST = RoutedRequest(10)


def test_round_robin_takes_turns_and_goes_on_when_an_engine_is_away() -> None:
    policy = RoundRobin(random.Random(0))
    all_three, without_one = [engine(0), engine(1), engine(2)], [engine(0), engine(2)]
    ranks = [
        policy.choose(RoutingView(loads, 1), REQUEST).rank
        for loads in (all_three, all_three, all_three, without_one, without_one, all_three)
    ]
    assert ranks == [0, 1, 2, 0, 2, 0]


def test_least_inflight_counts_reported_and_sent() -> None:
    view = RoutingView([engine(0, running=1), engine(1, sent=Charge(3, 3, 3))], 1)
    choice = LeastInflight(random.Random(0)).choose(view, REQUEST)
    assert choice.rank == 0
    assert choice.scores == {0: 1, 1: 3}


def test_least_inflight_draws_among_equals() -> None:
    policy, view = LeastInflight(random.Random(0)), RoutingView([engine(0), engine(1)], 1)
    assert {policy.choose(view, REQUEST).rank for _ in range(50)} == {0, 1}
