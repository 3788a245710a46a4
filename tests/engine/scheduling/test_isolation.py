"""Requests that are computed alone, and what that does to the others."""

import pytest

from engine.scheduling.output import SchedulerOutput
from tests.support.simulated_engine import SimulatedEngine


def names(work: SchedulerOutput) -> list[str]:
    return [scheduled.request.request_id for scheduled in work.scheduled]


def steps(engine: SimulatedEngine, count: int) -> list[list[str]]:
    return [names(engine.step()) for _ in range(count)]


def test_an_isolated_request_takes_turns_with_all_the_others() -> None:
    engine = SimulatedEngine()
    engine.add("a", [1] * 5)
    engine.add("b", [2] * 5)
    engine.step()
    engine.add("suspect", [3] * 5, isolated_until=3)
    assert steps(engine, 6) == [
        ["suspect"], ["a", "b"], ["suspect"], ["a", "b"], ["suspect"], ["a", "b", "suspect"],
    ]  # fmt: skip


def test_each_chunk_of_an_isolated_prompt_has_a_step_of_its_own() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=16, prefill_chunk_while_decoding=8)
    engine.add("stream", [1] * 4, max_tokens=20)
    engine.step()
    engine.add("suspect", range(20), isolated_until=1)
    works = [engine.step() for _ in range(5)]
    assert [names(work) for work in works] == [
        ["suspect"], ["stream"], ["suspect"], ["stream"], ["suspect"],
    ]  # fmt: skip
    assert [work.shape.num_tokens for work in works[::2]] == [8, 8, 4]
    assert sorted(steps(engine, 1)[0]) == ["stream", "suspect"]


def test_an_isolated_request_alone_has_every_step_and_the_whole_budget() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=32)
    engine.add("suspect", range(40), isolated_until=9, max_tokens=3)
    assert [engine.step().shape.num_tokens for _ in range(4)] == [32, 8, 1, 1]
    assert not engine.core.has_work


def test_several_isolated_requests_go_in_turn() -> None:
    engine = SimulatedEngine()
    for name in ("x", "y", "z"):
        engine.add(name, [5] * 4, isolated_until=99)
    engine.add("plain", [1] * 4)
    assert steps(engine, 8) == [
        ["x"], ["y"], ["z"], ["plain"], ["x"], ["plain"], ["y"], ["plain"],
    ]  # fmt: skip


def test_a_moved_request_is_isolated_by_all_the_output_it_has() -> None:
    engine = SimulatedEngine()
    engine.add("plain", [1] * 4)
    engine.step()
    engine.add("cleared", [3] * 5, [4] * 6, isolated_until=6)
    assert steps(engine, 1) == [["plain", "cleared"]]


def test_an_isolated_request_waits_for_a_slot_like_any_other() -> None:
    engine = SimulatedEngine(max_num_seqs=1)
    engine.add("first", [1] * 4, max_tokens=3)
    engine.step()
    engine.add("suspect", [2] * 4, max_tokens=2, isolated_until=9)
    engine.add("last", [3] * 4, max_tokens=1)
    assert steps(engine, 5) == [["first"], ["first"], ["suspect"], ["suspect"], ["last"]]


def test_nobody_overtakes_an_isolated_request_that_waits_for_memory() -> None:
    engine = SimulatedEngine(num_blocks=8)
    engine.add("stream", range(4), max_tokens=12)
    engine.step()
    engine.add("suspect", range(28), max_tokens=2, isolated_until=9)
    for index in range(5):
        engine.add(f"small-{index}", [index] * 3)
    engine.step()
    assert list(engine.scheduler.running) == ["stream"]
    engine.run()
    assert engine.answers["suspect"].token_ids == engine.expected("suspect")


def test_an_isolated_request_that_is_preempted_goes_on_alone() -> None:
    engine = SimulatedEngine(num_blocks=9)
    engine.add("old", range(12), max_tokens=20)
    engine.add("young", range(20, 32), max_tokens=20, isolated_until=18)
    engine.run()
    assert engine.core.stats().preemptions > 0
    for name in ("old", "young"):
        assert engine.answers[name].token_ids == engine.expected(name)


def test_cleared_requests_never_outnumber_the_tokens_of_a_step() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=3, max_num_seqs=8)
    for index in range(8):
        engine.add(f"request-{index}", [index] * 4, max_tokens=9, isolated_until=index % 2)
    engine.run()
    for name, answer in engine.answers.items():
        assert answer.token_ids == engine.expected(name)


def test_an_aborted_isolated_request_leaves_the_others_all_steps() -> None:
    engine = SimulatedEngine()
    engine.add("plain", [1] * 4)
    engine.add("suspect", [2] * 4, isolated_until=9)
    engine.step()
    engine.step()
    engine.abort("suspect")
    assert steps(engine, 3) == [["plain"]] * 3


@pytest.mark.parametrize("isolated_until", [0, 99])
@pytest.mark.parametrize("length", range(9, 16))
def test_nobody_is_admitted_in_a_step_that_preempts(length: int, isolated_until: int) -> None:
    engine = SimulatedEngine(num_blocks=9, scheduling_policy="priority")
    engine.add("old", range(12), max_tokens=20, isolated_until=isolated_until)
    engine.add("young", range(length), max_tokens=20, isolated_until=99, priority=9)
    while engine.core.stats().used_blocks < 9:
        engine.step()
    engine.add("late", [40], isolated_until=99, priority=5)
    while not (work := engine.step()).preempted:
        assert "late" not in names(work)
    assert [request.request_id for request in work.preempted] == ["young"]
    assert names(work) == ["old"]
    engine.run()
    for name in ("old", "young", "late"):
        assert engine.answers[name].token_ids == engine.expected(name)


def test_nothing_is_kept_of_isolated_requests_that_are_gone() -> None:
    engine = SimulatedEngine()
    for index in range(5):
        engine.add(f"request-{index}", [index], max_tokens=3, isolated_until=2)
    engine.run()
    assert not engine.scheduler._turns._to_isolate
    assert engine.scheduler._turns._last_isolated is None
