"""Requests that end with their prompt: what is computed of it, and what comes out."""

import pytest

from cluster.wire.messages import Blob
from cluster.wire.sampling import FinishReason, Pooling, PoolingParams
from engine.scheduling.output import SchedulerOutput
from tests.support.simulated_engine import SimulatedEngine
from tests.support.simulated_runner import reference_vector

MEAN, LAST = PoolingParams(Pooling.MEAN), PoolingParams(Pooling.LAST)


def vector_of(engine: SimulatedEngine, name: str) -> Blob:
    """The vector of a request, which is all that it got."""
    (output,) = engine.answers[name].outputs
    assert (output.finish_reason, output.token_ids) == (FinishReason.STOP, [])
    assert output.vector is not None
    return output.vector


def computed(work: SchedulerOutput) -> dict[str, int]:
    return {run.request.request_id: run.num_tokens for run in work.scheduled}


@pytest.mark.parametrize("params", [MEAN, LAST])
def test_a_prompt_is_computed_in_chunks_and_ends_with_its_vector(params: PoolingParams) -> None:
    engine = SimulatedEngine(max_num_batched_tokens=16)
    engine.add("a", range(40), pooling=params, max_tokens=0)
    assert [computed(engine.step()) for _ in range(3)] == [{"a": 16}, {"a": 16}, {"a": 8}]
    assert not engine.core.has_work
    assert vector_of(engine, "a") == reference_vector(range(40), params.pooling)
    assert engine.scheduler.kv_cache.num_used_blocks == 0


def test_a_mean_skips_nothing_of_its_prompt_and_the_last_token_does() -> None:
    engine = SimulatedEngine()
    engine.add("first", range(40))
    engine.run()
    engine.add("mean", range(40), pooling=MEAN, max_tokens=0)
    assert computed(engine.step()) == {"mean": 40}
    engine.add("last", range(40), pooling=LAST, max_tokens=0)
    assert computed(engine.step()) == {"last": 4}
    for name, params in (("mean", MEAN), ("last", LAST)):
        assert vector_of(engine, name) == reference_vector(range(40), params.pooling)
    assert engine.answers["mean"].outputs[0].cached_tokens == 0
    assert engine.answers["last"].outputs[0].cached_tokens == 36


def test_what_pools_fills_the_prefix_cache_for_others() -> None:
    engine = SimulatedEngine()
    engine.add("mean", range(40), pooling=MEAN, max_tokens=0)
    engine.run()
    engine.add("stream", range(40), max_tokens=1)
    assert computed(engine.step()) == {"stream": 4}


@pytest.mark.parametrize("params", [MEAN, LAST])
def test_streams_and_what_pools_share_the_steps(params: PoolingParams) -> None:
    engine = SimulatedEngine(prefill_chunk_while_decoding=8)
    engine.add("stream", [1, 2, 3], max_tokens=10)
    engine.step()
    engine.add("pooled", range(20), pooling=params, max_tokens=0)
    assert [computed(engine.step())["pooled"] for _ in range(3)] == [8, 8, 4]
    engine.run()
    assert engine.answers["stream"].token_ids == engine.expected("stream")
    assert vector_of(engine, "pooled") == reference_vector(range(20), params.pooling)


@pytest.mark.parametrize("params", [MEAN, LAST])
def test_a_prompt_may_fill_the_context_to_its_last_token(params: PoolingParams) -> None:
    engine = SimulatedEngine(max_model_len=30)
    assert engine.add("fits", [3] * 30, pooling=params, max_tokens=0) is None
    refusal = engine.add("too long", [3] * 31, pooling=params, max_tokens=0)
    assert refusal is not None
    assert (refusal.finish_reason, refusal.error) == (
        FinishReason.ERROR, "the prompt has 31 tokens, and at most 30 fit",
    )  # fmt: skip
    engine.run()
    assert vector_of(engine, "fits") == reference_vector([3] * 30, params.pooling)


def test_a_prompt_that_no_cache_holds_is_refused() -> None:
    engine = SimulatedEngine(num_blocks=4)
    assert engine.add("fits", [3] * 16, pooling=MEAN, max_tokens=0) is None
    refusal = engine.add("too long", [3] * 17, pooling=MEAN, max_tokens=0)
    assert refusal is not None
    assert "at most 16 fit" in refusal.error


def test_one_that_is_said_to_have_begun_is_refused() -> None:
    refusal = SimulatedEngine().add("a", [1, 2], [3], pooling=MEAN, max_tokens=0)
    assert refusal is not None
    assert "output_token_ids" in refusal.error


@pytest.mark.parametrize("params", [MEAN, LAST])
def test_an_isolated_one_is_computed_alone(params: PoolingParams) -> None:
    engine = SimulatedEngine(max_num_batched_tokens=16)
    engine.add("suspect", range(40), pooling=params, max_tokens=0, isolated_until=4)
    engine.add("stream", [1, 2, 3], max_tokens=4)
    engine.run()
    assert vector_of(engine, "suspect") == reference_vector(range(40), params.pooling)


def test_one_that_is_aborted_in_the_middle_leaves_nothing() -> None:
    engine = SimulatedEngine(max_num_batched_tokens=16)
    engine.add("a", range(40), pooling=MEAN, max_tokens=0)
    engine.step()
    engine.abort("a")
    assert not engine.core.has_work
    assert engine.scheduler.kv_cache.num_used_blocks == 0


def test_the_times_of_one_that_pools_are_counted() -> None:
    engine = SimulatedEngine()
    engine.add("a", range(9), pooling=LAST, max_tokens=0)
    engine.run()
    (timings,) = engine.core.stats().finished
    assert timings.prefill_seconds > 0
    assert timings.decode_seconds == 0
