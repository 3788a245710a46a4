"""Made-up vectors: the same for the same tokens, and for no others."""

import math
from array import array
from pathlib import Path

import pytest

from cluster.wire.sampling import Pooling, PoolingParams, SamplingParams
from engine.request import Request
from engine.scheduling.output import ScheduledRequest, SchedulerOutput
from engine.simulation.runner import SimulatedModelRunner
from engine.simulation.vector_source import made_up_vector
from tests.engine.simulation.conftest import MODEL_CONFIG
from tests.engine.simulation.test_runner import make_config

MEAN, LAST = PoolingParams(Pooling.MEAN), PoolingParams(Pooling.LAST)


def request(token_ids: list[int], params: PoolingParams = MEAN) -> Request:
    return Request("r", 0, 0, token_ids, len(token_ids), SamplingParams(pooling=params), [])


def numbers(token_ids: list[int], params: PoolingParams = MEAN) -> list[float]:
    return array("f", bytes(made_up_vector(request(token_ids, params), 32).data)).tolist()


def test_the_same_tokens_have_the_same_vector_and_others_another() -> None:
    vectors = [numbers([5, 6, 7]), numbers([5, 6, 7]), numbers([5, 7, 6]), numbers([5, 6, 7], LAST)]
    assert vectors[0] == vectors[1]
    assert len({tuple(vector) for vector in vectors}) == 3


def test_a_vector_has_length_one_unless_asked_otherwise() -> None:
    raw = numbers([5, 6], PoolingParams(normalize=False))
    unit = numbers([5, 6])
    assert math.hypot(*unit) == pytest.approx(1.0, abs=1e-6)
    assert math.hypot(*raw) > 1.1
    assert [x / math.hypot(*raw) for x in raw] == pytest.approx(unit, abs=1e-6)


def test_the_engine_answers_at_the_end_of_the_prompt_alone(model_folder: Path) -> None:
    runner = SimulatedModelRunner(make_config(model_folder))
    pooled = request([5] * 10)
    (first,) = runner.submit(
        SchedulerOutput([ScheduledRequest(pooled, 0, 6, [], reaches_end=False)])
    ).result()
    (second,) = runner.submit(SchedulerOutput([ScheduledRequest(pooled, 6, 4, [])])).result()
    assert (first.vector, first.token_id, second.token_id) == (None, None, None)
    assert second.vector == made_up_vector(pooled, MODEL_CONFIG["hidden_size"])
