"""What an engine learns from its own steps."""

import pytest

from engine.scheduling.output import StepShape
from engine.speed_model import SpeedModel

PER_STEP, PER_REQUEST, PER_KV_TOKEN, PREFILL_RATE = 2e-2, 2e-3, 1e-5, 1000.0


def true_seconds(shape: StepShape) -> float:
    return (
        shape.prefill_tokens / PREFILL_RATE
        + (PER_STEP if shape.decodes else 0.0)
        + shape.decodes * PER_REQUEST
        + shape.kv_tokens * PER_KV_TOKEN
    )


def varied_shapes(count: int) -> list[StepShape]:
    """Steps of growing context, a third of them with a prompt's chunk."""
    return [
        StepShape(100 if i % 3 == 0 else 0, 1 + i % 7, (1 + i % 7) * (50 + i % 11 * 40))
        for i in range(count)
    ]


def learned(slowness: float = 1.0) -> SpeedModel:
    model = SpeedModel()
    for shape in varied_shapes(200):
        model.observe(shape, true_seconds(shape) * slowness)
    return model


def test_the_speeds_are_found() -> None:
    speeds = learned().speeds
    assert speeds.prefill_tokens_per_second == pytest.approx(PREFILL_RATE, rel=0.02)
    assert speeds.decode_seconds_per_step == pytest.approx(PER_STEP, rel=0.05)
    assert speeds.decode_seconds_per_request == pytest.approx(PER_REQUEST, rel=0.05)
    assert speeds.decode_seconds_per_kv_token == pytest.approx(PER_KV_TOKEN, rel=0.05)
    assert speeds.slowdown == pytest.approx(1.0, abs=0.02)


def test_nothing_is_claimed_before_it_is_measured() -> None:
    model = SpeedModel()
    assert model.speeds.prefill_tokens_per_second == 0.0
    model.observe(StepShape(0, 4, 100), 0.01)
    assert model.speeds.prefill_tokens_per_second == 0.0
    assert model.predict_seconds(StepShape(0, 4, 100)) == pytest.approx(0.01, rel=1e-3)


def test_predictions_are_far_too_long_before_anything_is_measured() -> None:
    model = SpeedModel()
    assert model.predict_seconds(StepShape(512, 0, 0)) > 20.0
    assert model.predict_seconds(StepShape(0, 1, 11)) >= 1.0


def test_predictions_are_close_once_it_is_measured() -> None:
    shape = StepShape(100, 2, 300)
    assert learned().predict_seconds(shape) == pytest.approx(true_seconds(shape), rel=0.05)


def test_one_frozen_step_moves_the_fit_little() -> None:
    model = learned()
    before = model.speeds
    model.observe(StepShape(0, 4, 1000), 30.0)
    after = model.speeds
    assert after.decode_seconds_per_request < 2 * before.decode_seconds_per_request + 1e-3
    assert after.prefill_tokens_per_second == before.prefill_tokens_per_second


def test_a_throttled_device_shows_as_a_slowdown_and_then_in_the_fit() -> None:
    model = learned()
    for shape in varied_shapes(10):
        model.observe(shape, 3 * true_seconds(shape))
    assert model.speeds.slowdown > 1.8
    assert model.predict_seconds(StepShape(100, 0, 0)) > 1.8 * 100 / PREFILL_RATE
    for shape in varied_shapes(1000):
        model.observe(shape, 3 * true_seconds(shape))
    assert model.speeds.slowdown == pytest.approx(1.0, abs=0.05)
    assert model.speeds.prefill_tokens_per_second == pytest.approx(PREFILL_RATE / 3, rel=0.05)


@pytest.mark.parametrize("kv_effect", [-1e-5, 1e-3])
def test_no_speed_is_ever_negative(kv_effect: float) -> None:
    model = SpeedModel()
    for step in range(50):
        shape = StepShape(0, 1 + step % 5, 100 + step)
        model.observe(shape, max(1e-4, 0.05 - 0.01 * shape.decodes + kv_effect * shape.kv_tokens))
        assert model.speeds.decode_seconds_per_request >= 0.0
        assert model.speeds.decode_seconds_per_kv_token >= 0.0


def test_a_small_batch_does_not_make_requests_look_dear() -> None:
    small, large = SpeedModel(), SpeedModel()
    for step in range(200):
        for model, size in ((small, 1), (large, 8)):
            shape = StepShape(0, size + step % 3, (size + step % 3) * (100 + step))
            model.observe(shape, true_seconds(shape))
    ours, theirs = small.speeds, large.speeds
    assert ours.decode_seconds_per_request == pytest.approx(
        theirs.decode_seconds_per_request, rel=0.2
    )


def test_an_engine_that_has_run_one_request_only_does_not_seem_slow() -> None:
    model = SpeedModel()
    for step in range(200):
        shape = StepShape(0, 1, 100 + step)
        model.observe(shape, true_seconds(shape))
    speeds = model.speeds
    eight = speeds.decode_seconds_per_step + 8 * speeds.decode_seconds_per_request
    assert eight < 1.2 * true_seconds(StepShape(0, 8, 800))


def test_steps_of_one_shape_give_a_usable_fit() -> None:
    model = SpeedModel()
    for _ in range(20):
        model.observe(StepShape(0, 4, 400), 0.02)
    assert model.predict_seconds(StepShape(0, 4, 400)) == pytest.approx(0.02, rel=1e-3)


def test_a_clock_that_stands_still_teaches_nothing() -> None:
    model = SpeedModel()
    model.observe(StepShape(100, 0, 0), 0.0)
    assert model.speeds.prefill_tokens_per_second == 0.0
