import random
from collections import Counter

import pytest

from frontend.engine_book import EngineLoad
from frontend.routing.candidates import MOST_COMPARED, candidates
from frontend.routing.marginal_cost import MarginalCost
from frontend.routing.view import RoutedRequest, RoutingView
from tests.frontend.routing.loads import engine, silent_engine

REQUEST = RoutedRequest(1000)


def shares(
    *loads: EngineLoad, request: RoutedRequest = REQUEST, num_choices: int = 2000
) -> dict[int, float]:
    """By rank: in what share of choices an engine takes part."""
    random_source, counts = random.Random(0), Counter[int]()
    for _ in range(num_choices):
        counts.update(
            load.rank for load in candidates(RoutingView(loads, 1), request, random_source)
        )
    return {load.rank: counts[load.rank] / num_choices for load in loads}


# ── old news ──


def test_of_fresh_news_all_take_part() -> None:
    assert set(shares(*(engine(rank, age=0.2, running=1) for rank in range(5))).values()) == {1.0}


def test_of_old_news_two_random_ones_take_part() -> None:
    taking_part = shares(*(engine(rank, age=0.5, running=1) for rank in range(4)))
    assert all(share == pytest.approx(0.5, abs=0.05) for share in taking_part.values())


def test_old_news_do_not_keep_fresh_news_out() -> None:
    old = [engine(rank, age=0.5, running=1) for rank in range(4)]
    assert shares(*old, engine(4, running=9), engine(5))[4] == 1.0


def test_old_news_flatten_the_choice() -> None:
    engines = [
        engine(rank, age=0.5, running=1, waiting_prompt_tokens=rank * 100) for rank in range(4)
    ]
    policy, view = MarginalCost(random.Random(0)), RoutingView(engines, 1)
    ranks = {policy.choose(view, REQUEST).rank for _ in range(200)}
    assert ranks == {0, 1, 2}  # all but the worst of every pair


def test_who_holds_most_of_the_request_takes_part_however_old_its_report_is() -> None:
    old = [engine(rank, age=0.5, running=1) for rank in range(6)]
    taking_part = shares(*old, request=RoutedRequest(1000, {3: 400, 4: 100}))
    assert taking_part[3] == 1.0
    assert taking_part[4] < 0.5


def test_a_prefix_that_all_hold_makes_no_one_take_part_more_often() -> None:
    old = [engine(rank, age=0.5, running=1) for rank in range(4)]
    taking_part = shares(*old, request=RoutedRequest(1000, dict.fromkeys(range(4), 400)))
    assert all(share == pytest.approx(0.5, abs=0.05) for share in taking_part.values())


def test_an_idle_engine_reports_seldom_and_is_no_old_news_for_that() -> None:
    assert set(shares(*(engine(rank, age=0.7) for rank in range(4))).values()) == {1.0}
    assert shares(*(engine(rank, age=0.9) for rank in range(4)))[0] < 1.0


def test_where_there_are_no_reports_all_take_part() -> None:
    assert set(shares(*(silent_engine(rank) for rank in range(4))).values()) == {1.0}
    assert set(shares(*(engine(rank, age=9.0, running=3) for rank in range(4))).values()) == {1.0}


def test_who_was_left_out_is_told() -> None:
    loads = [engine(rank, age=0.5, running=1) for rank in range(5)]
    choice = MarginalCost(random.Random(0)).choose(RoutingView(loads, 1), REQUEST)
    assert len(set(choice.left_out)) == 3
    assert choice.rank not in choice.left_out


# ── slow start ──


def test_a_new_engine_begins_with_its_fair_share_and_gets_all_its_chances_within_seconds() -> None:
    def share(known_seconds: float) -> float:
        others = [engine(rank) for rank in range(3)]
        return shares(*others, engine(3, known_seconds=known_seconds))[3]

    assert share(0.0) == pytest.approx(0.25, abs=0.04)
    assert share(2.5) == pytest.approx(0.5, abs=0.04)
    assert share(5.0) == 1.0


def test_many_frontends_together_do_not_rush_to_a_new_engine() -> None:
    """Each has one request to send, and sees nothing of the others."""
    busy = [engine(rank, waiting=3, running=20, waiting_prompt_tokens=3000) for rank in range(3)]
    view = RoutingView([*busy, engine(3, known_seconds=0.1)], num_frontends=400)
    ranks = [MarginalCost(random.Random(seed)).choose(view, REQUEST).rank for seed in range(400)]
    assert 60 <= ranks.count(3) <= 140


def test_engines_that_start_together_are_not_new_to_each_other() -> None:
    at_a_start = [engine(rank, known_seconds=0.5 * rank) for rank in range(4)]
    assert set(shares(*at_a_start).values()) == {1.0}
    soon_after = [engine(rank, known_seconds=4.0 + rank) for rank in range(4)]
    assert set(shares(*soon_after).values()) == {1.0}


def test_a_new_engine_that_alone_has_room_gets_everything() -> None:
    assert shares(engine(0, known_seconds=0.0)) == {0: 1.0}


def test_if_only_new_engines_are_left_all_of_them_take_part() -> None:
    old_news = [engine(rank, age=0.5, running=1, known_seconds=0.0) for rank in range(3)]
    view = RoutingView([*old_news, engine(3, age=0.5, running=1)], 1)
    random_source = random.Random(0)
    assert all(candidates(view, REQUEST, random_source) for _ in range(500))


# ── many engines ──


def test_of_many_engines_some_random_ones_are_compared_and_all_in_turn() -> None:
    many = [engine(rank) for rank in range(64)]
    compared = candidates(RoutingView(many, 1), REQUEST, random.Random(0))
    assert len({load.rank for load in compared}) == len(compared) == MOST_COMPARED
    share = pytest.approx(MOST_COMPARED / 64, abs=0.07)
    assert all(found == share for found in shares(*many).values())


def test_of_many_engines_those_that_hold_most_always_take_part() -> None:
    many = [engine(rank) for rank in range(64)]
    hits = {rank: 16 * rank for rank in range(10)}
    taking_part = shares(*many, request=RoutedRequest(1000, hits))
    assert {rank for rank, share in taking_part.items() if share == 1.0} == {6, 7, 8, 9}
    assert taking_part[5] == pytest.approx(12 / 60, abs=0.05)


def test_as_many_engines_as_are_compared_all_take_part() -> None:
    assert set(shares(*(engine(rank) for rank in range(MOST_COMPARED))).values()) == {1.0}
