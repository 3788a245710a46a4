"""What is left of a step when its engine is gone."""

import logging
from pathlib import Path

import pytest

from cluster.config import ClusterConfig
from cluster.telemetry.flight_recorder import flight_record_path, read_flight_record
from cluster.wire.messages import FlightRecord
from engine.scheduling.output import SchedulerOutput
from engine.step_recorder import NOBODY, StepRecorder
from tests.support.simulated_engine import SimulatedEngine


class NamingError(Exception):
    """An error that knows whose fault it is."""

    request_ids = ("b",)


@pytest.fixture
def work() -> SchedulerOutput:
    """A step with a decoding request and two prompts."""
    engine = SimulatedEngine()
    engine.add("a", [1] * 3)
    engine.step()
    engine.add("b", [2] * 3)
    engine.add("c", [3] * 3)
    return engine.core.begin_step(0.0)


def test_the_record_holds_the_step_while_it_lasts(tmp_path: Path, work: SchedulerOutput) -> None:
    recorder = StepRecorder(ClusterConfig(run_directory=str(tmp_path)), 3, 2)
    path = flight_record_path(tmp_path, 3, 2)
    assert read_flight_record(path) == NOBODY
    recorder.began(work)
    assert read_flight_record(path) == FlightRecord(["a", "b", "c"], ["b", "c"])
    recorder.ended()
    assert read_flight_record(path) == NOBODY
    recorder.close()


def test_a_successor_begins_with_a_record_of_nobody(tmp_path: Path, work: SchedulerOutput) -> None:
    config = ClusterConfig(run_directory=str(tmp_path))
    first = StepRecorder(config, 0, 1)
    first.began(work)
    first.close()
    for incarnation in (1, 2):
        StepRecorder(config, 0, incarnation).close()
        assert read_flight_record(flight_record_path(tmp_path, 0, incarnation)) == NOBODY


def test_an_error_in_a_step_leaves_its_record(tmp_path: Path, work: SchedulerOutput) -> None:
    recorder = StepRecorder(ClusterConfig(run_directory=str(tmp_path)), 0, 1)
    recorder.began(work)
    expected = FlightRecord(["a", "b", "c"], ["b", "c"])
    assert recorder.failed(RuntimeError("device")) == expected
    assert read_flight_record(flight_record_path(tmp_path, 0, 1)) == expected
    recorder.close()


def test_an_error_that_names_requests_is_believed(tmp_path: Path, work: SchedulerOutput) -> None:
    recorder = StepRecorder(ClusterConfig(run_directory=str(tmp_path)), 0, 1)
    recorder.began(work)
    expected = FlightRecord(["a", "b", "c"], ["b"])
    assert recorder.failed(NamingError()) == expected
    assert read_flight_record(flight_record_path(tmp_path, 0, 1)) == expected
    recorder.close()


def test_all_steps_in_flight_are_recorded_and_each_request_once(tmp_path: Path) -> None:
    engine = SimulatedEngine(max_in_flight=2)
    engine.add("a", [1] * 3)
    recorder = StepRecorder(ClusterConfig(run_directory=str(tmp_path)), 0, 1)
    path = flight_record_path(tmp_path, 0, 1)
    for prompts in (["a"], ["a", "b"]):
        engine.begin()
        recorder.began(engine.in_flight[-1][0])
        assert read_flight_record(path) == FlightRecord(prompts, prompts)
        engine.add("b", [2] * 3)
    expected = FlightRecord(["a", "b"], ["b"])
    recorder.ended()
    assert read_flight_record(path) == expected
    assert recorder.failed(RuntimeError()) == expected
    recorder.close()


def test_an_error_between_two_steps_was_nobodys(tmp_path: Path, work: SchedulerOutput) -> None:
    recorder = StepRecorder(ClusterConfig(run_directory=str(tmp_path)), 0, 1)
    recorder.began(work)
    recorder.ended()
    assert recorder.failed(RuntimeError("a thread")) == NOBODY
    recorder.close()


def test_without_a_file_there_is_one_warning_and_the_last_words_are_the_same(
    tmp_path: Path, work: SchedulerOutput, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        recorder = StepRecorder(ClusterConfig(run_directory=str(tmp_path / "gone")), 0, 1)
        recorder.began(work)
        recorder.ended()
        recorder.began(work)
    assert recorder.failed(RuntimeError()).prefill_request_ids == ["b", "c"]
    assert len(caplog.records) == 1
    assert "there is no flight record" in caplog.text
    recorder.close()


def test_the_largest_steps_fit(tmp_path: Path) -> None:
    config = ClusterConfig(run_directory=str(tmp_path))
    max_num_seqs = config.engine.max_num_seqs
    engine = SimulatedEngine(num_blocks=256, max_num_seqs=max_num_seqs)
    names = [f"{index:0>128}" for index in range(2 * max_num_seqs)]
    recorder = StepRecorder(config, 0, 1)
    for some in (names[:max_num_seqs], names[max_num_seqs:]):
        for name in some:
            engine.add(name, [1])
        recorder.began(engine.core.begin_step(0.0))
        engine.abort(*some)
    expected = FlightRecord(names, names)
    assert read_flight_record(flight_record_path(tmp_path, 0, 1)) == expected
    recorder.close()
