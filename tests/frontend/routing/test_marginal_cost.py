import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontend.engine_book import Charge, EngineLoad
from frontend.routing.marginal_cost import (
    CACHE_BAR_SECONDS,
    EXPECTED_OUTPUT_TOKENS,
    OWN_PROMPT_WEIGHT,
    CostModel,
    MarginalCost,
    expected_load,
)
from frontend.routing.view import RoutedRequest, RoutingView
from tests.frontend.routing.loads import any_requests, any_views, engine, silent_engine

MEASURED = {
    "prefill_tokens_per_second": 1000.0,
    "decode_seconds_per_step": 0.01,
    "decode_seconds_per_request": 0.001,
    "decode_seconds_per_kv_token": 1e-6,
}


def chosen(*loads: EngineLoad, context_tokens: int = 100, num_frontends: int = 1) -> set[int]:
    """The engines that are chosen now and then."""
    view, request = RoutingView(loads, num_frontends), RoutedRequest(context_tokens)
    return {MarginalCost(random.Random(seed)).choose(view, request).rank for seed in range(50)}


def test_equal_engines_share_by_chance() -> None:
    assert chosen(engine(0), engine(1), engine(2)) == {0, 1, 2}


def test_the_cost_is_the_formula() -> None:
    load = engine(
        0, waiting=1, running=4, waiting_prompt_tokens=300, running_tokens=7_000,
        sent=Charge(2, 60, 80), withdrawn=Charge(1, 10, 40), measured=MEASURED,
    )  # fmt: skip
    model = CostModel(RoutingView([load], num_frontends=3), RoutedRequest(2000, {0: 500}), [load])
    terms = model.terms(load)
    held = 7_000 + 300 + 3 * 80 - 40
    assert terms.prefill_seconds == pytest.approx(
        (300 + 3 * 60 - 10 + OWN_PROMPT_WEIGHT * 1500) / 1000
    )
    assert terms.decode_seconds == pytest.approx(
        EXPECTED_OUTPUT_TOKENS * (0.001 * (1 + 4 + 3 * 2 - 1) + 1e-6 * held)
    )
    filled = (held + 2000 + EXPECTED_OUTPUT_TOKENS) / 10_000
    assert terms.cache_bar_seconds == pytest.approx(CACHE_BAR_SECONDS * (filled - 0.9))
    assert terms.hit_tokens == 500


def test_a_slow_engine_pays_for_its_slowness_in_prefill_and_in_decode() -> None:
    usual, slow = (
        engine(rank, running=4, slowdown=slowdown, measured=MEASURED)
        for rank, slowdown in enumerate([1.0, 3.0])
    )
    model = CostModel(RoutingView([usual, slow], 1), RoutedRequest(100), [usual, slow])
    assert model.terms(slow).slowness.momentary == 3.0
    assert model.terms(slow).total_seconds == pytest.approx(3 * model.terms(usual).total_seconds)


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_what_is_explained_is_what_decided(data: st.DataObject) -> None:
    view = data.draw(any_views())
    request = data.draw(any_requests(view))
    choice = MarginalCost(random.Random(0)).choose(view, request)
    model = CostModel(view, request, view.loads)
    terms = {load.rank: model.terms(load) for load in view.loads}
    assert choice.cost_seconds == terms[choice.rank].total_seconds
    assert all(
        choice.cost_seconds
        <= one.total_seconds
        + 0.0001
        + 0.0201 * min(abs(one.total_seconds), abs(choice.cost_seconds))
        for rank, one in terms.items()
        if rank not in choice.left_out
    )


@pytest.mark.parametrize(("tokens_more", "is_tie"), [(0, True), (15, True), (40, False)])
def test_near_ties_are_drawn(tokens_more: int, is_tie: bool) -> None:
    """Of a cost of one second, two hundredths are no difference."""
    near = engine(1, waiting_prompt_tokens=tokens_more, measured=MEASURED)
    ranks = chosen(engine(0, measured=MEASURED), near, context_tokens=1000 // OWN_PROMPT_WEIGHT)
    assert ranks == ({0, 1} if is_tie else {0})


def test_prompt_tokens_weigh_and_not_requests() -> None:
    long_prompt = engine(0, waiting=1, waiting_prompt_tokens=4000)
    many_short = engine(1, waiting=3, waiting_prompt_tokens=60)
    assert chosen(long_prompt, many_short) == {1}


def test_what_was_just_sent_counts_before_any_report() -> None:
    assert chosen(engine(0, sent=Charge(1, 100, 100)), engine(1)) == {1}
    assert chosen(silent_engine(0, sent=Charge(1, 100, 100)), silent_engine(1)) == {1}


def test_what_one_frontend_has_sent_the_others_are_taken_to_have_sent_too() -> None:
    sent_there = engine(0, sent=Charge(1, 100, 100))
    waits_there = engine(1, waiting=2, waiting_prompt_tokens=200)
    assert chosen(sent_there, waits_there, num_frontends=1) == {0}
    assert chosen(sent_there, waits_there, num_frontends=4) == {1}


def test_an_engine_that_holds_the_prefix_is_worth_some_waiting() -> None:
    holder = engine(0, waiting=1, waiting_prompt_tokens=500)
    view = RoutingView([holder, engine(1)], 1)
    policy = MarginalCost(random.Random(0))
    assert policy.choose(view, RoutedRequest(1000)).rank == 1
    assert policy.choose(view, RoutedRequest(1000, {0: 900})).rank == 0


def test_a_nearly_full_cache_is_avoided() -> None:
    full = engine(0, running=1, running_tokens=9500)
    assert chosen(full, engine(1, running=4, running_tokens=400)) == {1}


def test_a_slow_engine_gets_less() -> None:
    assert chosen(engine(0, running=2, slowdown=5.0), engine(1, running=3)) == {1}


def test_a_measured_fast_engine_gets_more() -> None:
    fast = engine(0, running=6, decode_seconds_per_step=0.02, prefill_tokens_per_second=1000)
    slow = engine(1, running=3, decode_seconds_per_step=0.10, prefill_tokens_per_second=200)
    assert chosen(fast, slow) == {0}


def test_a_cost_below_nothing_is_still_the_least() -> None:
    quick = engine(0, decode_seconds_per_step=0.001, prefill_tokens_per_second=100_000)
    others = [
        engine(rank, decode_seconds_per_step=0.1, prefill_tokens_per_second=1000) for rank in (1, 2)
    ]
    view = RoutingView([quick, *others], 1)
    assert CostModel(view, RoutedRequest(1), view.loads).terms(quick).total_seconds < 0
    assert chosen(quick, *others, context_tokens=1) == {0}


def test_an_idle_engines_slowness_is_forgiven_with_time() -> None:
    def chosen_after(idle_seconds: float) -> set[int]:
        slow = engine(0, slowdown=8.0, seconds_since_step=idle_seconds)
        return chosen(slow, engine(1, running=6))

    assert chosen_after(0.0) == {1}
    assert chosen_after(10.0) == {0}


def test_noise_in_what_was_measured_does_not_keep_engines_unequally_busy() -> None:
    quick = engine(0, running=4, decode_seconds_per_step=0.020, prefill_tokens_per_second=1000)
    late = engine(1, running=3, decode_seconds_per_step=0.026, prefill_tokens_per_second=800)
    assert chosen(quick, late) == {1}


def test_a_batch_that_costs_next_to_nothing_is_balanced_all_the_same() -> None:
    idle = engine(0, running=0, decode_seconds_per_step=0.02)
    busy = engine(1, running=6, decode_seconds_per_step=0.02)
    assert chosen(idle, busy, context_tokens=10) == {0}


def test_an_unmeasured_engine_is_taken_to_be_like_the_others() -> None:
    assert chosen(engine(0, prefill_tokens_per_second=50.0), engine(1)) == {0, 1}


def test_a_very_old_report_tells_nothing_of_what_the_others_have_there() -> None:
    busy_long_ago = engine(0, age=20.0, waiting=50, running=50, waiting_prompt_tokens=50_000)
    assert chosen(busy_long_ago, engine(1, age=20.0, sent=Charge(1, 10, 10))) == {0}


def test_own_requests_count_where_there_is_no_news_though_they_were_once_reported() -> None:
    load = engine(0, age=20.0, running=2, in_flight=2)
    assert expected_load(load, num_frontends=3) == (0, 6, 0)


def test_no_load_is_below_zero() -> None:
    ended_meanwhile = engine(0, withdrawn=Charge(1, 10, 10))
    assert expected_load(ended_meanwhile, num_frontends=1) == (0, 0, 0)
