"""A step that is scheduled while another is in flight, and nothing of that is known."""

from typing import Any

import pytest

from cluster.wire.sampling import FinishReason, Pooling, PoolingParams, SamplingParams
from engine.scheduling.lookahead import draws_freely
from tests.engine.scheduling.test_scheduler import plan
from tests.support.simulated_engine import SimulatedEngine

PROMPT = list(range(10))

WAITING: list[dict[str, Any]] = [
    {"grammar": "any"},
    {"bad_words": [[7]]},
    {"logit_bias": [(7, 1.0)]},
    {"allowed_token_ids": [7]},
    {"presence_penalty": 0.5},
    {"frequency_penalty": -0.5},
    {"repetition_penalty": 1.1},
]
FREE: list[dict[str, Any]] = [
    {},
    {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.1, "seed": 3},
    {"logprobs": 3},
    {"prompt_logprobs": 0},
    {"stop_token_ids": [49]},
]


def ahead(engine: SimulatedEngine) -> dict[str, int] | None:
    """Begin a step behind those in flight: the tokens of each request in it, None if it has to wait."""
    return plan(engine.in_flight[-1][0]) if engine.begin() else None


def overlapping(**settings: Any) -> SimulatedEngine:
    return SimulatedEngine(max_in_flight=2, **settings)


@pytest.mark.parametrize("sampling", FREE)
def test_a_stream_goes_on_with_a_token_that_is_in_flight(sampling: dict[str, Any]) -> None:
    engine = overlapping()
    engine.add("a", PROMPT, max_tokens=5, **sampling)
    assert ahead(engine) == {"a": 10}
    assert ahead(engine) == {"a": 1}
    assert engine.answers["a"].token_ids == []
    engine.end()
    assert ahead(engine) == {"a": 1}
    engine.run()
    assert engine.answers["a"].token_ids == engine.expected("a")


@pytest.mark.parametrize("sampling", WAITING)
def test_a_stream_that_needs_its_token_is_left_out_of_one_step(sampling: dict[str, Any]) -> None:
    engine = overlapping()
    engine.add("waiting", PROMPT, max_tokens=5, **sampling)
    engine.add("free", PROMPT[:3], max_tokens=8)
    assert ahead(engine) == {"waiting": 10, "free": 3}
    assert ahead(engine) == {"free": 1}
    engine.end()
    assert ahead(engine) == {"waiting": 1, "free": 1}
    engine.run()
    assert engine.answers["waiting"].token_ids == engine.expected("waiting")


def test_with_nobody_else_there_is_no_step_ahead_of_a_token_that_is_needed() -> None:
    engine = overlapping()
    engine.add("a", PROMPT, grammar="any")
    assert ahead(engine) == {"a": 10}
    assert ahead(engine) is None
    engine.run()
    assert engine.answers["a"].token_ids == engine.expected("a")


def test_the_least_length_is_waited_for_until_it_is_out() -> None:
    sampling = SamplingParams(min_tokens=3)
    assert [draws_freely(sampling, position) for position in range(5)] == [False] * 3 + [True] * 2


@pytest.mark.parametrize(("max_tokens", "max_model_len"), [(3, 256), (99, 13)])
def test_nothing_is_scheduled_beyond_a_length(max_tokens: int, max_model_len: int) -> None:
    engine = overlapping(max_model_len=max_model_len)
    engine.add("a", PROMPT, max_tokens=max_tokens)
    assert [ahead(engine), ahead(engine)] == [{"a": 10}, {"a": 1}]
    engine.end()
    assert ahead(engine) == {"a": 1}
    engine.end()
    assert ahead(engine) is None
    engine.end()
    assert engine.answers["a"].finish_reason is FinishReason.LENGTH
    assert not engine.core.has_work


def test_what_a_stop_token_makes_superfluous_is_dropped_and_never_cached() -> None:
    engine = overlapping()
    undisturbed = SimulatedEngine()
    undisturbed.add("a", PROMPT, max_tokens=9)
    undisturbed.run()
    stop = undisturbed.answers["a"].token_ids[1]  # the twelfth token; the surplus one fills a block
    engine.add("a", PROMPT, max_tokens=9, stop_token_ids=[stop])
    engine.begin()
    engine.begin()
    engine.end()
    engine.begin()
    engine.end()
    assert engine.answers["a"].finish_reason is FinishReason.STOP
    assert engine.core.stats().used_blocks == 0
    assert not engine.scheduler.has_requests
    assert engine.core.has_work, "a step in flight is forgotten"
    assert engine.end().shape.num_tokens == 1
    assert engine.core.stats().cached_blocks == 11 // 4
    assert len(engine.answers["a"].token_ids) == 2


def test_an_abort_with_two_steps_in_flight_frees_the_blocks_and_drops_both_results() -> None:
    engine = overlapping()
    engine.add("a", PROMPT)
    engine.begin()
    engine.begin()
    engine.abort("a")
    assert engine.core.stats().used_blocks == 0
    engine.add("b", PROMPT[::-1], max_tokens=2)
    engine.end()
    engine.run()
    assert engine.answers["a"].outputs == []
    assert engine.answers["b"].token_ids == engine.expected("b")


def test_an_error_in_flight_ends_its_request_and_its_later_steps_are_dropped() -> None:
    engine = overlapping()
    engine.add("good", PROMPT)
    engine.add("bad", PROMPT[:5])
    engine.runner.failures["bad"] = "its logits are no numbers"
    engine.begin()
    assert ahead(engine) == {"good": 1, "bad": 1}
    engine.end()
    assert engine.answers["bad"].finish_reason is FinishReason.ERROR
    engine.run()
    assert engine.answers["good"].token_ids == engine.expected("good")


def test_nobody_is_preempted_for_a_step_ahead() -> None:
    engine = overlapping(num_blocks=8)
    for name in ("old", "young"):
        engine.add(name, [len(name)] * 10, max_tokens=8)
    while not engine.core.stats().preemptions:
        engine.step()  # which looks that nothing is in flight when somebody is preempted
    engine.run()
    for name in ("old", "young"):
        assert engine.answers[name].token_ids == engine.expected(name)


def test_a_prompt_goes_on_in_chunks_that_are_all_in_flight() -> None:
    engine = overlapping(max_num_batched_tokens=4)
    engine.add("a", PROMPT, max_tokens=2, prompt_logprobs=0)
    assert [ahead(engine), ahead(engine)] == [{"a": 4}, {"a": 4}]
    engine.end()
    assert ahead(engine) == {"a": 2}
    engine.run()
    assert engine.answers["a"].token_ids == engine.expected("a")


@pytest.mark.parametrize("pooling", Pooling)
def test_a_prompt_that_pools_is_computed_once(pooling: Pooling) -> None:
    engine = overlapping(max_num_batched_tokens=6)
    engine.add("a", PROMPT, pooling=PoolingParams(pooling))
    assert [ahead(engine), ahead(engine)] == [{"a": 6}, {"a": 4}]
    engine.end()
    assert ahead(engine) is None
    engine.run()
    assert engine.answers["a"].outputs[-1].vector == engine.expected_vector("a")


def test_prompts_keep_to_their_chunk_beside_a_stream_that_waits() -> None:
    engine = overlapping(prefill_chunk_while_decoding=4)
    engine.add("stream", PROMPT, max_tokens=9, grammar="any")
    engine.begin()
    engine.add("new", [5] * 30)
    assert ahead(engine) == {"new": 4}


def test_an_isolated_request_is_alone_in_flight_even_once_it_is_aborted() -> None:
    engine = overlapping()
    engine.add("others", PROMPT, max_tokens=9)
    engine.step()
    engine.end()
    engine.add("suspect", [7] * 5, isolated_until=3)
    assert ahead(engine) == {"suspect": 5}
    assert ahead(engine) is None
    engine.abort("suspect")
    assert ahead(engine) is None
    engine.end()
    assert ahead(engine) == {"others": 1}


def test_what_is_in_flight_is_reported_as_still_to_be_computed() -> None:
    engine = overlapping(max_num_batched_tokens=4)
    engine.add("a", PROMPT)
    engine.begin()
    engine.begin()
    stats = engine.core.stats()
    assert (stats.waiting_prompt_tokens, stats.running_tokens) == (10, 0)
    engine.end()
    stats = engine.core.stats()
    assert (stats.waiting_prompt_tokens, stats.running_tokens) == (6, 4)


def test_a_step_took_the_time_since_the_one_before_it_ended() -> None:
    engine = overlapping()
    engine.add("a", PROMPT)
    for begins_at in (0.0, 1.0):
        engine.now = begins_at
        engine.begin()
    engine.now = 2.0
    engine.end()
    assert engine.core.stats().step_seconds == pytest.approx(2.01)
    engine.now = 2.51
    engine.end()
    assert engine.core.stats().step_seconds == pytest.approx(0.51)
