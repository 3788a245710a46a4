"""Who computes how much in which step."""

import math
from typing import Any

import pytest

from cluster.wire.sampling import FinishReason
from engine.scheduling.output import SchedulerOutput
from tests.support.simulated_engine import SimulatedEngine


def plan(work: SchedulerOutput) -> dict[str, int]:
    """Tokens of each request in a step."""
    return {scheduled.request.request_id: scheduled.num_tokens for scheduled in work.scheduled}


def first_tokens(prompt: list[int], number: int) -> list[int]:
    """The output with which a request moves that has got so many tokens."""
    undisturbed = SimulatedEngine()
    undisturbed.add("request", prompt, max_tokens=number)
    undisturbed.run()
    return undisturbed.answers["request"].token_ids


# ── budgets and order ────────────────────────────────────────────────────────────────────────


def test_a_long_prompt_is_computed_in_chunks_of_the_budget() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=16)
    engine.add("long", range(40), max_tokens=2)
    assert [plan(engine.step()) for _ in range(4)] == [
        {"long": 16}, {"long": 16}, {"long": 8}, {"long": 1},
    ]  # fmt: skip


def test_short_prompts_fill_one_step_together_first_come_first_served() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=16)
    for name, length in (("a", 6), ("b", 6), ("c", 6)):
        engine.add(name, [length] * length)
    assert plan(engine.step()) == {"a": 6, "b": 6, "c": 4}


def test_a_long_prompt_never_stops_the_tokens_of_the_others() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=64, prefill_chunk_while_decoding=8)
    engine.add("stream", [1, 2, 3], max_tokens=10)
    engine.step()
    engine.add("long", range(50))
    for _ in range(6):
        assert plan(engine.step()) == {"stream": 1, "long": 8}


def test_the_chunk_beside_decodes_is_shared_by_all_prompts() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=64, prefill_chunk_while_decoding=8)
    engine.add("stream", [1, 2, 3], max_tokens=10)
    engine.step()
    engine.add("a", [1] * 6)
    engine.add("b", [2] * 6)
    assert plan(engine.step()) == {"stream": 1, "a": 6, "b": 2}


def test_the_context_of_a_moved_stream_is_not_cut_to_the_chunk() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=64, prefill_chunk_while_decoding=8)
    engine.add("stream", [1, 2, 3], max_tokens=10)
    engine.step()
    engine.add("new", [1] * 20, age_seconds=9.0)
    assert plan(engine.step()) == {"stream": 1, "new": 8}
    engine.add("moved", prompt := [2] * 29, first_tokens(prompt, 1), max_tokens=10)
    assert plan(engine.step()) == {"stream": 1, "new": 8, "moved": 30}
    assert plan(engine.step()) == {"stream": 1, "moved": 1, "new": 4}


def test_decodes_come_first_in_the_batch() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=8)
    engine.add("long", range(20), max_tokens=3)
    engine.add("short", [9] * 3, max_tokens=9)
    engine.step()
    engine.step()
    assert plan(engine.step()) == {"long": 4, "short": 3}
    engine.add("late", range(30, 36))
    assert list(plan(engine.step())) == ["long", "short", "late"]


def test_no_more_requests_run_than_the_budget_has_tokens() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=3, max_num_seqs=10)
    for index in range(6):
        engine.add(f"request-{index}", [index] * 4, max_tokens=20)
    for _ in range(30):
        engine.step()
        assert len(engine.scheduler.running) <= 3
    engine.run()


def test_no_more_requests_run_than_there_are_sequence_slots() -> None:
    engine = SimulatedEngine(max_num_seqs=2)
    for index in range(5):
        engine.add(f"request-{index}", [index] * 4)
    engine.step()
    assert list(engine.scheduler.running) == ["request-0", "request-1"]


def test_priority_decides_and_then_the_age_of_what_has_begun() -> None:
    engine = SimulatedEngine(max_num_seqs=1, scheduling_policy="priority")
    engine.add("b", [2], priority=1)
    engine.add("a", [1], priority=0)
    engine.add("moved here", [3], priority=1, age_seconds=5.0, output=[7])
    assert order_of_service(engine) == ["a", "moved here", "b"]


def test_what_waited_long_in_a_frontend_overtakes_nobody_here() -> None:
    """The order in which frontends send is the order of their tenants' turns."""
    engine = SimulatedEngine(max_num_seqs=1)
    engine.add("running", [1])
    engine.step()
    engine.add("of a quiet tenant", [2], age_seconds=0.0)
    engine.add("of a flood", [3], age_seconds=20.0)
    assert order_of_service(engine) == ["running", "of a quiet tenant", "of a flood"]


def order_of_service(engine: SimulatedEngine) -> list[str]:
    order: list[str] = []
    while engine.core.has_work:
        order += [name for name in plan(engine.step()) if name not in order]
    return order


def test_first_come_first_served_ignores_priority() -> None:
    engine = SimulatedEngine(max_num_seqs=1)
    engine.add("first", [1], priority=5)
    engine.add("second", [2], priority=0)
    assert plan(engine.step()) == {"first": 1}


# ── memory ───────────────────────────────────────────────────────────────────────────────────


def test_the_youngest_request_is_preempted_and_goes_on_where_it_was() -> None:
    engine = SimulatedEngine(num_blocks=9)
    engine.add("old", range(12), max_tokens=20)
    engine.add("young", range(20, 32), max_tokens=20)
    while not (work := engine.step()).preempted:
        assert plan(work).keys() == {"old", "young"}
    assert [request.request_id for request in work.preempted] == ["young"]
    assert plan(work) == {"old": 1}
    engine.run()
    assert engine.core.stats().preemptions == 1
    for name in ("old", "young"):
        assert engine.answers[name].token_ids == engine.expected(name)


def test_the_lowest_priority_is_preempted_though_it_is_older() -> None:
    engine = SimulatedEngine(num_blocks=9, scheduling_policy="priority")
    engine.add("background", range(12), max_tokens=20, priority=9)
    engine.add("urgent", range(20, 32), max_tokens=20, priority=0)
    while not (work := engine.step()).preempted:
        pass
    assert [request.request_id for request in work.preempted] == ["background"]
    engine.run()
    assert engine.answers["background"].token_ids == engine.expected("background")


def test_a_preempted_request_is_taken_out_of_the_step_it_was_in() -> None:
    engine = SimulatedEngine(num_blocks=10, scheduling_policy="priority")
    engine.add("background", range(20, 35), max_tokens=20, priority=9)
    engine.step()
    engine.add("urgent", range(12), max_tokens=20, priority=0)
    while not (work := engine.step()).preempted:
        assert not engine.answers["urgent"].outputs or list(plan(work)) == ["background", "urgent"]
    assert plan(work) == {"urgent": 1}
    engine.run()


def test_a_preempted_request_goes_before_those_that_wait() -> None:
    engine = SimulatedEngine(num_blocks=9)
    engine.add("old", range(12), max_tokens=20)
    engine.add("young", range(20, 32), max_tokens=20)
    engine.step()
    engine.add("waiting", range(40, 50))
    while not engine.step().preempted:
        pass
    assert engine.scheduler.waiting.pop().request_id == "young"


def test_nobody_is_admitted_in_a_step_that_preempts() -> None:
    engine = SimulatedEngine(num_blocks=9, scheduling_policy="priority")
    engine.add("urgent", range(12), max_tokens=20, priority=0)
    engine.add("background", range(20, 33), max_tokens=19, priority=9)
    while engine.core.stats().used_blocks < 9:
        engine.step()
    engine.add("middle", [1, 2], priority=5)
    while not (work := engine.step()).preempted:
        pass
    assert plan(work) == {"urgent": 1}
    assert plan(engine.step()) == {"urgent": 1, "middle": 2}


def test_a_prompt_preempted_half_way_sends_its_logprobs_once() -> None:
    engine = SimulatedEngine(num_blocks=13, prefill_chunk_while_decoding=1)
    engine.add("stream", range(12), max_tokens=30)
    engine.step()
    engine.add("prompt", range(20, 46), max_tokens=2, prompt_logprobs=0)
    while not (work := engine.step()).preempted:
        pass
    assert [request.request_id for request in work.preempted] == ["prompt"]
    assert engine.answers["prompt"].outputs == []
    engine.run()
    (logprobs,) = engine.answers["prompt"].prompt_logprobs
    assert len(logprobs.token_ids.data) == 4 * 25


def test_an_admission_leaves_blocks_for_those_that_run() -> None:
    engine = SimulatedEngine(num_blocks=7)
    engine.add("stream", range(10), max_tokens=10)
    engine.step()
    engine.add("one too many", range(20, 32), max_tokens=1)
    assert plan(engine.step()) == {"stream": 1}
    engine.run()
    assert engine.core.stats().preemptions == 0


def test_the_largest_possible_request_runs_once_it_is_alone() -> None:
    engine = SimulatedEngine(num_blocks=6)
    engine.add("stream", range(8), max_tokens=4)
    engine.add("largest", range(20, 40), max_tokens=4)
    engine.run()
    assert engine.answers["largest"].token_ids == engine.expected("largest")


def test_a_large_request_is_not_overtaken_for_ever() -> None:
    engine = SimulatedEngine(num_blocks=8, max_num_seqs=8)
    engine.add("stream", range(4), max_tokens=12)
    engine.step()
    engine.add("large", range(28), max_tokens=2)
    for index in range(5):
        engine.add(f"small-{index}", [index] * 3)
    engine.step()
    assert list(engine.scheduler.running) == ["stream"]
    engine.run()
    assert engine.answers["large"].token_ids == engine.expected("large")


def test_thirty_long_generations_end_in_a_small_cache() -> None:
    engine = SimulatedEngine(num_blocks=20, max_num_seqs=16)
    for index in range(30):
        engine.add(f"request-{index}", [index] * 6, max_tokens=60)
    engine.run()
    assert engine.core.stats().preemptions > 0
    for name, answer in engine.answers.items():
        assert answer.token_ids == engine.expected(name)


# ── prefixes ─────────────────────────────────────────────────────────────────────────────────


def test_a_hit_gives_the_text_of_a_miss() -> None:
    engine = SimulatedEngine()
    for name in ("miss", "hit"):
        engine.add(name, range(13), max_tokens=20)
        engine.run()
    assert engine.answers["hit"].token_ids == engine.answers["miss"].token_ids
    assert engine.answers["hit"].outputs[0].cached_tokens == 12
    computed = [position for name, position in engine.runner.computed_positions if name == "hit"]
    assert computed[0] == 12


def test_a_prompt_that_is_cached_as_a_whole_still_computes_its_last_token() -> None:
    engine = SimulatedEngine()
    engine.add("miss", range(12), max_tokens=8)
    engine.run()
    engine.add("hit", range(12), max_tokens=8)
    assert plan(engine.step()) == {"hit": 4}
    engine.run()
    assert engine.answers["hit"].token_ids == engine.answers["miss"].token_ids


def test_prompts_that_differ_in_an_early_token_do_not_share() -> None:
    engine = SimulatedEngine()
    for turn in range(6):
        engine.add(f"request-{turn}", [turn % 2, *range(1, 12)])
        engine.run()
    for name, answer in engine.answers.items():
        assert answer.token_ids == engine.expected(name)
    assert engine.answers["request-1"].outputs[0].cached_tokens == 0
    assert engine.answers["request-2"].outputs[0].cached_tokens == 8


def test_equal_prompts_in_one_step_do_not_read_each_others_blocks() -> None:
    engine = SimulatedEngine()
    for index in range(3):
        engine.add(f"request-{index}", range(12))
    assert plan(engine.step()) == {"request-0": 12, "request-1": 12, "request-2": 12}
    engine.run()


def test_a_preempted_request_finds_its_own_blocks_again() -> None:
    engine = SimulatedEngine(num_blocks=9)
    engine.add("old", range(12), max_tokens=13)
    engine.add("young", range(20, 32), max_tokens=20)
    engine.run()
    stats = engine.core.stats()
    assert stats.preemptions == 1
    assert (stats.prefix_queries, stats.prefix_hits) == (24, 0)  # each request's first look alone
    positions = [p for name, p in engine.runner.computed_positions if name == "young"]
    assert positions.count(0) == 1
    assert engine.answers["young"].outputs[0].cached_tokens == 0


# ── the door ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("prompt", "options", "error"),
    [
        ([], {}, "prompt_token_ids is empty"),
        ([1, 50], {}, "token id 50 is not in the vocabulary of 50 tokens"),
        ([-1], {}, "token id -1"),
        ([1, 2], {"output": [1 << 40]}, "token id 1099511627776"),
        ([1] * 256, {}, "256 tokens leaves no room for an answer: max_model_len is 256"),
        ([1] * 16, {"max_tokens": 9}, "25 tokens together, and the KV cache holds 24"),
        ([1], {"age_seconds": math.nan}, "age_seconds"),
        ([1], {"logprobs": -1}, "logprobs is -1"),
        ([1], {"prompt_logprobs": -3}, "prompt_logprobs is -3"),
    ],
)
def test_what_can_never_be_served_is_refused_at_once(
    prompt: list[int], options: dict[str, Any], error: str
) -> None:
    engine = SimulatedEngine(num_blocks=6)
    refusal = engine.add("a", prompt, **options)
    assert refusal is not None
    assert refusal.finish_reason is FinishReason.ERROR
    assert error in refusal.error
    assert not engine.core.has_work
    engine.check()


def test_a_request_id_that_the_flight_record_cannot_hold_is_refused() -> None:
    engine = SimulatedEngine()
    assert engine.add("é" * 64, [1]) is None
    refusal = engine.add("é" * 64 + "x", [1])
    assert refusal is not None
    assert refusal.error == "request_id has 129 bytes, and at most 128 fit"


def test_the_context_caps_what_a_request_may_need() -> None:
    engine = SimulatedEngine(num_blocks=6, max_model_len=24)
    assert engine.add("a", [1] * 16, max_tokens=1000) is None
    engine.run()
    assert engine.answers["a"].finish_reason is FinishReason.LENGTH
    assert len(engine.answers["a"].token_ids) == 8


def test_more_hashes_than_blocks_are_refused() -> None:
    engine = SimulatedEngine()
    engine.add("a", [1] * 9)
    message = engine.answers["a"].message
    engine.abort("a")
    message.block_hashes.append(b"x" * 16)
    refusal = engine.core.add_request(message, now=0.0)
    assert refusal is not None
    assert refusal.error.startswith("3 block_hashes for a prompt with 2 full blocks")
