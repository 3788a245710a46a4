import json
import random
import tracemalloc

import pytest

from frontend.balancer import POLICIES, Balancer
from frontend.engine_book import Charge
from frontend.routing.decisions import MOST_DECISIONS, Decision, DecisionLog
from frontend.routing.view import RoutedRequest, RoutingView
from tests.frontend.routing.loads import engine, silent_engine


def decide(policy: str, view: RoutingView, request: RoutedRequest, number: int = 0) -> Decision:
    choice = Balancer(policy, random.Random(number)).choose(view, request)
    assert choice is not None
    return Decision(float(number), f"request-{number}", policy, view, request, choice)


VIEW = RoutingView(
    [
        silent_engine(1, in_flight=2),
        engine(
            0, age=0.25, waiting=1, running=4, waiting_prompt_tokens=300, sent=Charge(2, 60, 80)
        ),
    ],
    num_frontends=3,
)
REQUEST = RoutedRequest(500, {0: 480})


def test_a_decision_is_explained_by_what_it_was_made_by() -> None:
    log = DecisionLog()
    decision = decide("marginal-cost", VIEW, REQUEST)
    log.add(decision)
    [told] = log.explain(now=1.5)
    engines = told.pop("engines")
    assert told == {
        "age_seconds": 1.5, "request_id": "request-0", "policy": "marginal-cost",
        "context_tokens": 500, "num_frontends": 3, "chosen": decision.choice.rank,
        "cost_seconds": decision.choice.cost_seconds,
    }  # fmt: skip
    assert isinstance(engines, list)
    chosen = next(one for one in engines if one["engine"] == decision.choice.rank)
    assert chosen["terms"]["total_seconds"] == decision.choice.cost_seconds
    for one in engines:
        del one["terms"]
    assert engines == [
        {"engine": 0, "took_part": True, "report_age_seconds": 0.25, "hit_tokens": 480,
         "in_flight": 0, "unacknowledged": 2, "waiting": 1, "running": 4},
        {"engine": 1, "took_part": True, "report_age_seconds": None, "hit_tokens": 0,
         "in_flight": 2, "unacknowledged": 0, "waiting": None, "running": None},
    ]  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policys_decisions_are_plain_json(policy: str) -> None:
    log = DecisionLog()
    log.add(decide(policy, VIEW, REQUEST))
    told = log.explain(now=0.0)
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_a_policy_that_keeps_score_tells_the_scores_that_it_compared() -> None:
    log = DecisionLog()
    decision = decide("vllm", VIEW, REQUEST)
    log.add(decision)
    engines = log.explain(now=0.0)[0]["engines"]
    assert isinstance(engines, list)
    assert {one["engine"]: one["score"] for one in engines} == decision.choice.scores


def test_who_took_no_part_is_told() -> None:
    log = DecisionLog()
    old = RoutingView([engine(rank, age=0.5, running=1) for rank in range(5)], 1)
    log.add(decide("marginal-cost", old, REQUEST))
    engines = log.explain(now=0.0)[0]["engines"]
    assert isinstance(engines, list)
    assert (
        sum(one["took_part"] for one in engines) == 3
    )  # two of old news, and who holds the prefix


def test_the_newest_decisions_are_kept_and_told_first() -> None:
    log = DecisionLog()
    for number in range(MOST_DECISIONS + 10):
        log.add(decide("random", VIEW, REQUEST, number))
    told = [one["request_id"] for one in log.explain(now=0.0)]
    assert len(log) == MOST_DECISIONS
    assert told == [f"request-{number}" for number in range(MOST_DECISIONS + 9, 9, -1)]


def test_many_decisions_over_many_engines_take_no_more_memory_than_the_last_ones() -> None:
    log = DecisionLog()

    def allocated_after(num_decisions: int) -> int:
        for number in range(num_decisions):
            loads = [engine(rank, report_seq=number) for rank in range(64)]
            log.add(decide("random", RoutingView(loads, 1), RoutedRequest(100), number))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        full_bytes = allocated_after(MOST_DECISIONS)
        assert full_bytes < 32 * 2**20
        assert allocated_after(4 * MOST_DECISIONS) < 1.05 * full_bytes
    finally:
        tracemalloc.stop()
