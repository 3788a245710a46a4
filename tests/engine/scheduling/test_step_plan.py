"""A step's budget while it is planned."""

from cluster.wire.sampling import SamplingParams
from engine.request import Request
from engine.scheduling.step_plan import StepPlan


def make_request(name: str, num_tokens: int, num_computed_tokens: int = 0) -> Request:
    request = Request(name, 0, 0, [1] * num_tokens, num_tokens, SamplingParams(), [])
    request.num_computed_tokens = num_computed_tokens
    return request


def test_a_request_gets_what_it_needs_or_what_is_left() -> None:
    plan = StepPlan(10)
    plan.schedule(make_request("a", 9, num_computed_tokens=2), [0, 1])
    plan.schedule(make_request("b", 9), [2])
    first, second = plan.output().scheduled
    assert (first.first_position, first.num_tokens, first.block_table) == (2, 7, [0, 1])
    assert (second.first_position, second.num_tokens) == (0, 3)
    assert (first.samples, second.samples) == (True, False)
    assert plan.tokens_left_for(make_request("c", 1)) == 0


def test_a_preempted_request_gives_its_tokens_back() -> None:
    plan = StepPlan(10)
    kept, lost = make_request("kept", 3), make_request("lost", 4)
    plan.schedule(kept, [])
    plan.schedule(lost, [])
    plan.preempt(lost)
    assert plan.tokens_left_for(make_request("next", 9)) == 7
    assert [scheduled.request for scheduled in plan.output().scheduled] == [kept]
    assert plan.output().preempted == [lost]


def test_a_limit_for_new_prompts_never_raises_what_is_left() -> None:
    plan, request = StepPlan(5), make_request("new", 9)
    plan.limit_new_prompts(8)
    assert plan.tokens_left_for(request) == 5
    plan.limit_new_prompts(2)
    assert plan.tokens_left_for(request) == 2


def test_what_has_begun_is_not_limited_but_counts_for_new_prompts() -> None:
    plan, begun, new = StepPlan(10), make_request("begun", 6), make_request("new", 9)
    begun.token_ids.append(1)
    plan.limit_new_prompts(3)
    assert (plan.tokens_left_for(begun), plan.tokens_left_for(new)) == (10, 3)
    plan.schedule(begun, [])
    assert (plan.tokens_left_for(begun), plan.tokens_left_for(new)) == (3, 0)
