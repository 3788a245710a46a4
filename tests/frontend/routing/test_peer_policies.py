import random
from collections.abc import Callable

import pytest

from frontend.engine_book import Charge, EngineLoad
from frontend.routing.peer_policies import VLLM, LMetric, PowerOfTwo, SMGLeastLoad, VLLMClassic
from frontend.routing.view import EngineChoice, Policy, RoutedRequest, RoutingView
from tests.frontend.routing.loads import engine, silent_engine


def choose(
    policy: Policy,
    *loads: EngineLoad,
    clients: int = 1,
    request: RoutedRequest | None = None,
    now: float = 0.0,
) -> EngineChoice:
    return policy.choose(RoutingView(loads, clients, now), request or RoutedRequest(100))


# ── vLLM 0.32 ──


@pytest.mark.parametrize(
    ("load", "score"),
    [
        (engine(0, waiting=2, running=5), 7),
        (engine(0, waiting=2, running=5, in_flight=3), 12),  # four clients, as busy as this one
        (engine(0, waiting=2, running=5, used_blocks=75, total_blocks=100), 7 + 6 * 2 * 0.25),
        (engine(0, waiting=0, running=5, used_blocks=100, total_blocks=100), 5),
        (engine(0, waiting=2, running=5, used_blocks=20, total_blocks=100), 7),
        (silent_engine(0, in_flight=1), 4),
    ],
)
def test_vllms_score(load: EngineLoad, score: float) -> None:
    assert choose(VLLM(random.Random(0)), load, clients=4).scores[0] == pytest.approx(score)


def test_vllms_scan_starts_one_further_each_time_and_the_first_of_equals_wins() -> None:
    policy = VLLM(random.Random(0))
    ranks = [
        choose(policy, *(engine(rank) for rank in (2, 0, 1)), now=second).rank
        for second in range(6)
    ]
    assert ranks[:3] == ranks[3:]
    assert ranks[:3] in ([0, 1, 2], [1, 2, 0], [2, 0, 1])


@pytest.mark.parametrize("make", [VLLM, VLLMClassic])
def test_vllms_winner_has_waiting_requests_more_until_the_next_publication(
    make: Callable[[random.Random], Policy],
) -> None:
    policy = make(random.Random(0))
    weight = 4 if make is VLLMClassic else 1
    free, busy = engine(0), engine(1, running=50)
    scores = [
        choose(policy, free, busy, clients=3, now=now).scores[0] for now in (0.0, 0.05, 0.09, 0.1)
    ]
    assert scores == [0, 3 * weight, 6 * weight, 0]


def test_vllm_hears_of_all_engines_every_tenth_of_a_second_and_not_in_between() -> None:
    policy = VLLM(random.Random(0))
    choose(policy, engine(0), engine(1), now=5.0)
    busy = [engine(0, running=9, report_seq=2), engine(1, running=9, report_seq=2)]
    assert max(choose(policy, *busy, now=5.05).scores.values()) < 9
    assert set(choose(policy, *busy, now=5.2).scores.values()) == {9}


def test_vllm_takes_an_engine_that_is_new_to_be_idle() -> None:
    policy = VLLM(random.Random(0))
    choose(policy, engine(0, running=9))
    assert choose(policy, engine(0), engine(7, running=9), now=0.05).scores == {0: 10, 7: 0}


# ── vLLM before ──


def test_the_classic_score_weighs_waiting_four_times() -> None:
    choice = choose(
        VLLMClassic(random.Random(0)), engine(0, waiting=2, running=5), engine(1, running=12)
    )
    assert choice.scores == {0: 13, 1: 12}
    assert choice.rank == 1


def test_the_classic_scan_always_starts_at_one_place() -> None:
    policy = VLLMClassic(random.Random(0))
    ranks = {
        choose(policy, *(engine(rank) for rank in range(3)), now=second).rank for second in range(6)
    }
    assert len(ranks) == 1


# ── the others ──


def test_the_less_busy_one_of_a_random_pair() -> None:
    policy = PowerOfTwo(random.Random(0))
    loads = [engine(0, running=1), engine(1, waiting=2), engine(2, running=3)]
    ranks = [choose(policy, *loads).rank for _ in range(300)]
    assert set(ranks) == {0, 1}
    assert ranks.count(0) == pytest.approx(200, abs=30)


def test_equals_of_a_pair_are_drawn_and_a_single_engine_is_taken() -> None:
    policy = PowerOfTwo(random.Random(0))
    assert {choose(policy, engine(0), silent_engine(1)).rank for _ in range(50)} == {0, 1}
    assert choose(policy, engine(5)).rank == 5


def test_lmetric_is_tokens_to_prefill_times_requests() -> None:
    load = engine(
        0, waiting=1, running=3, waiting_prompt_tokens=200,
        sent=Charge(2, 50, 80), withdrawn=Charge(1, 20, 20),
    )  # fmt: skip
    request = RoutedRequest(100, {0: 30})
    choice = choose(LMetric(random.Random(0)), load, clients=4, request=request)
    assert choice.scores[0] == (200 + 50 - 20 + 70) * (4 + 2 - 1 + 1)


def test_smgs_score_is_tokens_over_throughput_and_the_pressure_on_the_cache() -> None:
    busy = engine(
        0, running=10, running_tokens=1000, waiting_prompt_tokens=300, used_blocks=50,
        total_blocks=100, decode_seconds_per_step=0.01, decode_seconds_per_request=0.001,
        decode_seconds_per_kv_token=1e-5,
    )  # fmt: skip
    idle = engine(1, waiting_prompt_tokens=500)
    scores = choose(SMGLeastLoad(random.Random(0)), busy, idle).scores
    assert scores[0] == pytest.approx(300 / (10 / 0.03) + 0.15)
    assert scores[1] == pytest.approx(500 / 2000)


def test_smg_adds_whole_prompts_to_an_engine_until_its_next_report() -> None:
    policy, request = SMGLeastLoad(random.Random(0)), RoutedRequest(400, {0: 300})
    busy = engine(1, waiting_prompt_tokens=4000)
    scores = [choose(policy, engine(0), busy, request=request).scores[0] for _ in range(3)]
    assert scores == pytest.approx([0, 400 / 2000, 800 / 2000])
    assert choose(policy, engine(0, report_seq=2), busy, request=request).scores[0] == 0


def test_smg_guesses_at_an_engine_without_news_and_counts_requests_where_there_are_none() -> None:
    silent = [silent_engine(0, in_flight=2), engine(1, age=31.0, in_flight=1)]
    assert choose(SMGLeastLoad(random.Random(0)), *silent).scores == {0: 2, 1: 1}
    measured = engine(2, running=10, decode_seconds_per_step=0.02)
    scores = choose(SMGLeastLoad(random.Random(0)), *silent, measured).scores
    assert scores[0] == pytest.approx(2 * 1024 / (10 / 0.02))
