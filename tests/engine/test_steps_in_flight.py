"""What the rest of the cluster is told of the step under way, while another waits behind it."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.config import ClusterConfig
from cluster.telemetry.flight_recorder import flight_record_path, read_flight_record
from cluster.wire.messages import FlightRecord
from engine.load_reporter import StepProgress
from engine.step_recorder import NOBODY, StepRecorder
from engine.steps_in_flight import StepsInFlight
from tests.support.simulated_engine import SimulatedEngine

LONG, SHORT = 40, 10


@pytest.fixture
def engine() -> SimulatedEngine:
    engine = SimulatedEngine(max_num_batched_tokens=LONG)
    engine.add("a", [1] * (LONG + SHORT))
    return engine


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[StepRecorder]:
    recorder = StepRecorder(ClusterConfig(run_directory=str(tmp_path)), 0, 1)
    yield recorder
    recorder.close()


def test_the_step_under_way_is_the_oldest(engine: SimulatedEngine, recorder: StepRecorder) -> None:
    progress = StepProgress()
    steps, began_at = StepsInFlight(recorder, progress), time.monotonic()
    works = []
    for _ in range(2):
        works.append(engine.core.begin_step(began_at))
        steps.begin(engine.core, works[-1])
    assert [work.shape.num_tokens for work in works] == [LONG, SHORT]
    long, short = (engine.core.predict_seconds(work) for work in works)
    assert long > short
    assert progress.predicted_seconds == long
    assert not steps.end(engine.core, steps.wait())
    assert progress.at >= began_at
    assert progress.predicted_seconds == pytest.approx(short)
    [[output]] = steps.end(engine.core, steps.wait()).values()
    assert output.request_id == "a"
    assert len(steps) == 0


def test_whoever_is_in_flight_is_on_record(
    engine: SimulatedEngine, recorder: StepRecorder, tmp_path: Path
) -> None:
    steps, path = StepsInFlight(recorder, StepProgress()), flight_record_path(tmp_path, 0, 1)
    for _ in range(2):
        steps.begin(engine.core, engine.core.begin_step(0.0))
    while steps:
        assert read_flight_record(path) == FlightRecord(["a"], ["a"])
        steps.end(engine.core, steps.wait())
    assert read_flight_record(path) == NOBODY
