"""The engine's thinking as a whole, over a simulated model."""

from array import array
from typing import Any

import msgspec
import pytest

from cluster.wire.messages import TokenLogprobs
from cluster.wire.sampling import FinishReason
from tests.support.simulated_engine import SimulatedEngine

PROMPT = list(range(10))


def token_ids_of(logprobs: list[TokenLogprobs]) -> list[int]:
    token_ids = array("i")
    for piece in logprobs:
        token_ids.frombytes(bytes(piece.token_ids.data))
    return list(token_ids)


def test_a_request_gets_its_tokens_one_a_step_and_ends_once() -> None:
    engine = SimulatedEngine()
    engine.add("a", PROMPT, max_tokens=5)
    engine.run()
    answer = engine.answers["a"]
    assert answer.token_ids == engine.expected("a")
    assert [len(output.token_ids) for output in answer.outputs] == [1] * 5
    assert answer.finish_reason is FinishReason.LENGTH
    assert engine.scheduler.kv_cache.num_used_blocks == 0


def test_outputs_go_to_the_frontend_that_asked() -> None:
    engine = SimulatedEngine()
    for index in range(3):
        engine.add(f"request-{index}", [index] * 5, frontend_index=index)
    engine.run()
    assert all(answer.finish_reason is not None for answer in engine.answers.values())


@pytest.mark.parametrize("position", range(13))
def test_a_request_goes_on_in_another_engine_from_any_output_position(position: int) -> None:
    sampling: dict[str, Any] = {"max_tokens": 12, "min_tokens": 3}
    first = SimulatedEngine()
    first.add("a", PROMPT, **sampling)
    while len(first.answers["a"].token_ids) < position:
        first.step()
    second = SimulatedEngine(max_num_batched_tokens=3)
    second.add("a", PROMPT, first.answers["a"].token_ids, attempt=1, **sampling)
    second.run()
    answer = second.answers["a"]
    assert answer.token_ids == first.expected("a")
    assert answer.finish_reason is FinishReason.LENGTH
    assert all(output.attempt == 1 for output in answer.outputs)


def test_a_moved_request_shares_the_cached_blocks_of_its_output_too() -> None:
    engine = SimulatedEngine()
    engine.add("first", PROMPT, max_tokens=30)
    engine.run()
    engine.add("moved", PROMPT, engine.expected("first")[:14], max_tokens=30)
    assert (
        engine.step().shape.num_tokens == 4
    )  # 24 tokens, 5 blocks of 4 found, all but the last token
    engine.run()
    assert engine.answers["moved"].token_ids == engine.expected("first")
    assert engine.answers["moved"].outputs[0].cached_tokens == len(PROMPT)


@pytest.mark.parametrize(("salt", "num_hit_tokens"), [("mine", 16), ("", 0)])
def test_a_moved_request_hits_what_was_cached_under_its_salt_alone(
    salt: str, num_hit_tokens: int
) -> None:
    engine = SimulatedEngine()
    engine.add("first", PROMPT, cache_salt="mine", max_tokens=12)
    engine.run()
    output = engine.expected("first")
    engine.runner.computed_positions.clear()
    engine.add("moved", PROMPT, output[:9], cache_salt=salt, max_tokens=12)
    engine.step()
    assert engine.runner.computed_positions[0] == ("moved", num_hit_tokens)
    engine.run()
    assert engine.answers["moved"].token_ids == output


@pytest.mark.parametrize(
    ("output_length", "sampling", "reason"),
    [(4, {"max_tokens": 4}, FinishReason.LENGTH), (2, {"stop_token_ids": [1]}, FinishReason.STOP)],
)
def test_a_request_that_arrives_complete_ends_without_a_step(
    output_length: int, sampling: dict[str, Any], reason: FinishReason
) -> None:
    engine = SimulatedEngine()
    output = engine.add("a", PROMPT, [1] * output_length, **sampling)
    assert output is not None
    assert (output.finish_reason, output.token_ids) == (reason, [])
    assert output.first_output_index == output_length
    assert not engine.core.has_work


def test_aborted_requests_free_their_blocks_at_once_wherever_they_are() -> None:
    engine = SimulatedEngine(max_num_seqs=2)
    for index in range(4):
        engine.add(f"request-{index}", [index] * 20)
    engine.step()
    engine.abort("request-0", "request-3", "unknown")
    stats = engine.core.stats()
    assert (stats.running, stats.waiting, stats.used_blocks) == (1, 1, 5)
    engine.run()
    assert engine.answers["request-1"].token_ids == engine.expected("request-1")


def test_an_abort_between_forward_pass_and_update_drops_the_result() -> None:
    engine = SimulatedEngine()
    engine.add("a", PROMPT)
    engine.add("b", PROMPT[:7])
    engine.step(during=lambda: engine.abort("a"))
    assert engine.answers["a"].outputs == []
    assert len(engine.answers["b"].outputs) == 1
    assert engine.core.stats().used_blocks == 2


def test_an_id_that_is_used_again_during_the_step_gets_nothing_of_the_old_request() -> None:
    engine = SimulatedEngine()
    engine.add("a", PROMPT)

    def replace() -> None:
        engine.abort("a")
        del engine.answers["a"]
        engine.add("a", PROMPT[:3])

    engine.step(during=replace)
    assert engine.answers["a"].outputs == []
    engine.run()
    assert engine.answers["a"].token_ids == engine.expected("a")


def test_a_dead_frontends_requests_are_dropped_and_no_others() -> None:
    engine = SimulatedEngine(max_num_seqs=2)
    for index in range(6):
        engine.add(f"request-{index}", [index] * 9, frontend_index=index % 2)
    engine.step()
    engine.core.abort_frontend(1)
    engine.run()
    ended = {name for name, answer in engine.answers.items() if answer.finish_reason is not None}
    assert ended == {"request-0", "request-2", "request-4"}


def test_an_id_in_use_is_refused_for_the_newcomer_only() -> None:
    engine = SimulatedEngine()
    engine.add("a", PROMPT)
    engine.step()
    refusal = engine.add("a", [1, 2, 3], attempt=7)
    assert refusal is not None
    assert (refusal.finish_reason, refusal.attempt) == (FinishReason.ERROR, 7)
    assert "in use" in refusal.error
    engine.run()
    assert engine.answers["a"].token_ids == engine.expected("a")


def test_an_error_of_one_request_ends_that_request_only() -> None:
    engine = SimulatedEngine()
    engine.add("good", PROMPT)
    engine.add("bad", PROMPT[:5])
    engine.step()
    engine.runner.failures["bad"] = "its grammar is broken"
    engine.run()
    assert engine.answers["bad"].finish_reason is FinishReason.ERROR
    assert engine.answers["bad"].outputs[-1].error == "its grammar is broken"
    assert engine.answers["good"].token_ids == engine.expected("good")


@pytest.mark.parametrize(
    ("field", "value"),
    [("block_hashes", None), ("prompt_token_ids", ["one"]), ("priority", "high")],
)
def test_a_request_that_cannot_even_be_read_ends_alone(field: str, value: Any) -> None:
    engine = SimulatedEngine(scheduling_policy="priority")
    engine.add("good", PROMPT)
    engine.add("bad", PROMPT[:5])
    message = msgspec.structs.replace(
        engine.answers["bad"].message, request_id="worse", **{field: value}
    )
    refusal = engine.core.add_request(message, engine.now)
    assert refusal is not None
    assert (refusal.request_id, refusal.finish_reason) == ("worse", FinishReason.ERROR)
    assert "Error: " in refusal.error
    engine.check()
    engine.run()
    for name in ("good", "bad"):
        assert engine.answers[name].token_ids == engine.expected(name)


def test_a_result_that_cannot_be_taken_over_ends_its_request_alone() -> None:
    engine = SimulatedEngine()
    engine.add("good", PROMPT)
    engine.add("bad", PROMPT[:5], stop_token_ids=None)
    engine.run()
    answer = engine.answers["bad"]
    assert answer.finish_reason is FinishReason.ERROR
    assert answer.outputs[-1].error.startswith("TypeError: ")
    assert engine.answers["good"].token_ids == engine.expected("good")
    assert engine.scheduler.kv_cache.num_used_blocks == 0


def test_a_prompt_whose_step_failed_is_not_cached() -> None:
    engine = SimulatedEngine()
    engine.runner.failures["bad"] = "no"
    engine.add("bad", PROMPT)
    engine.run()
    assert engine.core.stats().cached_blocks == 0


def test_prompt_logprobs_come_once_and_whole_with_the_first_token() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=4)
    engine.add("a", PROMPT, prompt_logprobs=0, logprobs=0, max_tokens=3)
    engine.run()
    outputs = engine.answers["a"].outputs
    assert token_ids_of(engine.answers["a"].prompt_logprobs) == PROMPT[1:]
    assert [output.prompt_logprobs is not None for output in outputs] == [True, False, False]
    logprobs = [output.logprobs for output in outputs if output.logprobs is not None]
    assert token_ids_of(logprobs) == engine.expected("a")


def test_prompt_logprobs_are_whole_though_the_prompt_is_cached() -> None:
    engine = SimulatedEngine()
    engine.add("first", PROMPT)
    engine.run()
    engine.add("second", PROMPT, prompt_logprobs=0)
    engine.run()
    assert token_ids_of(engine.answers["second"].prompt_logprobs) == PROMPT[1:]
    assert engine.answers["second"].outputs[0].cached_tokens == 0


def test_prompt_logprobs_are_not_sent_again_after_a_move() -> None:
    engine = SimulatedEngine()
    engine.add("a", PROMPT, [3], prompt_logprobs=0)
    engine.run()
    assert engine.answers["a"].prompt_logprobs == []


def test_the_stats_tell_what_waits_what_runs_and_what_it_holds() -> None:
    engine = SimulatedEngine(max_num_seqs=2, max_num_batched_tokens=16)
    engine.add("a", PROMPT)
    engine.add("b", [7] * 20)
    engine.add("c", [8] * 30)
    engine.step()
    stats = engine.core.stats()
    assert (stats.step, stats.running, stats.waiting) == (1, 2, 1)
    assert stats.waiting_prompt_tokens == (20 - 6) + 30
    assert stats.running_tokens == stats.step_tokens == stats.computed_tokens == 16
    assert (stats.total_blocks, stats.used_blocks) == (64, 3 + 5)
    assert stats.kv_cache_usage == 8 / 64
    assert stats.step_seconds == pytest.approx(0.01)


def test_the_stats_count_prefix_hits_in_tokens_and_each_end_once() -> None:
    engine = SimulatedEngine()
    for name in ("first", "second"):
        engine.add(name, PROMPT, max_tokens=3)
        engine.run()
    stats = engine.core.stats()
    assert (stats.prefix_queries, stats.prefix_hits) == (20, 8)
    assert engine.answers["second"].outputs[0].cached_tokens == 8
    assert [output.cached_tokens for output in engine.answers["second"].outputs[1:]] == [None] * 2
    assert len(stats.finished) == 2
    assert stats.finished[0].queue_seconds == 0.0
    assert stats.finished[0].prefill_seconds == pytest.approx(0.01)
    assert stats.finished[0].decode_seconds == pytest.approx(0.02)
    assert engine.core.stats().finished == ()


def test_the_prefix_cache_is_reset_only_while_nobody_holds_blocks() -> None:
    engine = SimulatedEngine()
    engine.add("a", PROMPT)
    engine.step()
    assert not engine.core.reset_prefix_cache()
    engine.run()
    assert engine.core.stats().cached_blocks > 0
    assert engine.core.reset_prefix_cache()
    assert engine.core.stats().cached_blocks == 0
    engine.check()


def test_a_step_is_predicted_by_those_before_it() -> None:
    engine = SimulatedEngine()
    engine.add("a", PROMPT, max_tokens=100)
    work = engine.core.begin_step(0.0)
    assert engine.core.predict_seconds(work) > 0.4
    engine.core.finish_step(work, engine.core.submit(work).result(), 0.01)
    for _ in range(20):
        engine.now = 1.0
        work = engine.core.begin_step(1.0)
        engine.core.finish_step(work, engine.core.submit(work).result(), 1.01)
    work = engine.core.begin_step(2.0)
    assert engine.core.predict_seconds(work) == pytest.approx(0.01, rel=0.1)
