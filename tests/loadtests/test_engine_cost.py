"""The least that a step takes, worked out by hand."""

import pytest

from loadtests.engine_lab.cost import (
    MachineLimits,
    ModelCost,
    StepWork,
    floor_seconds,
    stored_bytes,
)

MODEL = ModelCost(
    body_weights=900, head_weights=100, weight_bytes=2, kv_bytes_per_token=10,
    attention_flops_per_pair=3,
)  # fmt: skip
READS_SLOWLY = MachineLimits(read_bytes_per_second=100.0, flops_per_second=1e12)
COMPUTES_SLOWLY = MachineLimits(read_bytes_per_second=1e12, flops_per_second=1000.0)


def test_a_slow_memory_has_to_read_the_weights_once_and_all_of_the_context() -> None:
    assert floor_seconds(StepWork.decode(1, 50), MODEL, READS_SLOWLY) == (2000 + 500) / 100
    assert floor_seconds(StepWork.decode(4, 50), MODEL, READS_SLOWLY) == (2000 + 2000) / 100


def test_a_slow_processor_multiplies_every_token_with_every_weight_and_with_its_context() -> None:
    one = floor_seconds(StepWork.decode(1, 50), MODEL, COMPUTES_SLOWLY)
    assert one == (2 * 1000 + 3 * 50) / 1000
    assert floor_seconds(StepWork.decode(7, 50), MODEL, COMPUTES_SLOWLY) == pytest.approx(7 * one)


def test_a_prompt_needs_the_head_for_its_last_token_alone() -> None:
    seconds = floor_seconds(StepWork.prefill(20), MODEL, COMPUTES_SLOWLY)
    assert seconds == (2 * 900 * 20 + 2 * 100 + 3 * 210) / 1000


def test_a_token_of_a_prompt_attends_to_itself_and_to_what_is_before_it() -> None:
    assert StepWork.prefill(3).pairs == 1 + 2 + 3


def test_a_limit_is_the_most_that_was_ever_seen() -> None:
    best = MachineLimits(1.0, 20.0).best_of(MachineLimits(2.0, 10.0))
    assert best == MachineLimits(2.0, 20.0)


@pytest.mark.parametrize(
    ("dtype", "quantization", "device", "expected"),
    [
        ("bfloat16", "none", "cpu", 2),
        ("float16", "none", "cpu", 4),
        ("float32", "none", "cpu", 4),
        ("float16", "none", "cuda", 2),
        ("bfloat16", "int8", "cpu", 1),
    ],
)
def test_weights_take_what_they_are_stored_in(
    dtype: str, quantization: str, device: str, expected: int
) -> None:
    assert stored_bytes(dtype, quantization, device) == expected
