import random
from collections import Counter

import pytest

from cluster.wire.messages import EnginePhase, LoadReport
from frontend.balancer import Balancer
from frontend.engine_book import Charge, EngineLoad
from frontend.routing.view import RoutedRequest, RoutingView

NOTHING = Charge()


def engine(rank: int, age: float = 0.0, sent: Charge = NOTHING, **fields: float) -> EngineLoad:
    report = LoadReport(rank, 1, 1, EnginePhase.READY, **fields)  # type: ignore[arg-type]
    return EngineLoad(rank, report, age, sent, NOTHING, capacity_tokens=10_000)


def balancer(policy: str = "marginal-cost", seed: int = 0) -> Balancer:
    return Balancer(policy, random.Random(seed))


def chosen(view: RoutingView, prompt_tokens: int = 100) -> set[int]:
    choices = (balancer(seed=seed).choose(view, RoutedRequest(prompt_tokens)) for seed in range(50))
    return {choice.rank for choice in choices if choice is not None}


def test_without_engines_there_is_no_choice() -> None:
    assert balancer().choose(RoutingView([], 1), RoutedRequest(10)) is None


def test_equal_engines_share_by_chance() -> None:
    assert chosen(RoutingView([engine(0), engine(1), engine(2)], 1)) == {0, 1, 2}


def test_prompt_tokens_weigh_and_not_requests() -> None:
    long_prompt = engine(0, waiting=1, waiting_prompt_tokens=4000)
    many_short = engine(1, waiting=3, waiting_prompt_tokens=60)
    assert chosen(RoutingView([long_prompt, many_short], 1)) == {1}


def test_what_was_just_sent_counts_before_any_report() -> None:
    assert chosen(RoutingView([engine(0, sent=Charge(1, 100, 100)), engine(1)], 1)) == {1}


def test_a_nearly_full_cache_is_avoided() -> None:
    full = engine(0, running=1, running_tokens=9500)
    busy = engine(1, running=4, running_tokens=400)
    assert chosen(RoutingView([full, busy], 1)) == {1}


def test_a_slow_engine_gets_less() -> None:
    slow = engine(0, running=2, slowdown=5.0)
    assert chosen(RoutingView([slow, engine(1, running=3)], 1)) == {1}


def test_a_measured_fast_engine_gets_more() -> None:
    fast = engine(0, running=6, decode_seconds_per_step=0.02, prefill_tokens_per_second=1000)
    slow = engine(1, running=3, decode_seconds_per_step=0.10, prefill_tokens_per_second=200)
    assert chosen(RoutingView([fast, slow], 1)) == {0}


def test_a_cost_below_nothing_is_still_the_least() -> None:
    quick = engine(0, decode_seconds_per_step=0.001, prefill_tokens_per_second=100_000)
    others = [
        engine(rank, decode_seconds_per_step=0.1, prefill_tokens_per_second=1000) for rank in (1, 2)
    ]
    view = RoutingView([quick, *others], 1)
    choice = balancer().choose(view, RoutedRequest(1))
    assert choice is not None
    assert choice.cost_seconds < 0
    assert chosen(view, prompt_tokens=1) == {0}


def test_an_idle_engines_slowness_is_forgiven_with_time() -> None:
    def view(idle_seconds: float) -> RoutingView:
        slow = engine(0, slowdown=8.0, seconds_since_step=idle_seconds)
        return RoutingView([slow, engine(1, running=6)], 1)

    assert chosen(view(0.0)) == {1}
    assert chosen(view(10.0)) == {0}


def test_noise_in_what_was_measured_does_not_keep_engines_unequally_busy() -> None:
    quick = engine(0, running=4, decode_seconds_per_step=0.020, prefill_tokens_per_second=1000)
    late = engine(1, running=3, decode_seconds_per_step=0.026, prefill_tokens_per_second=800)
    assert chosen(RoutingView([quick, late], 1)) == {1}


def test_a_batch_that_costs_next_to_nothing_is_balanced_all_the_same() -> None:
    idle = engine(0, running=0, decode_seconds_per_step=0.02)
    busy = engine(1, running=6, decode_seconds_per_step=0.02)
    assert chosen(RoutingView([idle, busy], 1), prompt_tokens=10) == {0}


def test_an_unmeasured_engine_is_taken_to_be_like_the_others() -> None:
    known = engine(0, prefill_tokens_per_second=50.0)
    assert chosen(RoutingView([known, engine(1)], 1)) == {0, 1}


def test_old_news_flatten_the_choice() -> None:
    engines = [engine(rank, age=0.5, waiting_prompt_tokens=rank * 100) for rank in range(4)]
    assert len(chosen(RoutingView(engines, 1))) == 3  # all but the worst of every pair


def test_the_first_burst_spreads_evenly() -> None:
    sent = [NOTHING] * 4
    burst, counts = balancer(), Counter[int]()
    for _ in range(40):
        view = RoutingView([engine(rank, sent=sent[rank]) for rank in range(4)], num_frontends=2)
        choice = burst.choose(view, RoutedRequest(50))
        assert choice is not None
        counts[choice.rank] += 1
        sent[choice.rank] = sent[choice.rank].plus(Charge(1, 50, 50))
    assert set(counts.values()) == {10}


@pytest.mark.parametrize("policy", ["least-inflight", "round-robin", "random", "marginal-cost"])
def test_every_policy_uses_every_engine(policy: str) -> None:
    one = balancer(policy)
    view = RoutingView([engine(0), engine(1), engine(2)], 1)
    ranks = {
        choice.rank
        for _ in range(100)
        if (choice := one.choose(view, RoutedRequest(10))) is not None
    }
    assert ranks == {0, 1, 2}


def test_round_robin_goes_on_when_an_engine_is_away() -> None:
    one = balancer("round-robin")
    ranks = []
    for loads in ([engine(0), engine(1), engine(2)], [engine(0), engine(2)]) * 3:
        choice = one.choose(RoutingView(loads, 1), RoutedRequest(10))
        assert choice is not None
        ranks.append(choice.rank)
    assert set(ranks) <= {0, 1, 2}
    assert len(set(ranks)) > 1


def test_least_inflight_counts_reported_and_sent() -> None:
    one = balancer("least-inflight")
    view = RoutingView([engine(0, running=1), engine(1, sent=Charge(3, 3, 3))], 1)
    choice = one.choose(view, RoutedRequest(10))
    assert choice is not None
    assert choice.rank == 0
