import os
import signal
import struct
from pathlib import Path

import pytest

from cluster.telemetry.flight_recorder import (
    FlightRecorder,
    flight_record_path,
    read_flight_record,
)
from cluster.wire.messages import FlightRecord


def test_what_is_recorded_is_read(tmp_path: Path) -> None:
    path = flight_record_path(tmp_path, 3, 2)
    recorder = FlightRecorder(path, max_requests=4)
    assert read_flight_record(path) is None  # nothing was recorded yet
    for flight in (FlightRecord(["a", "b"], ["b"]), FlightRecord(["a"]), FlightRecord([])):
        recorder.record(flight)
        assert read_flight_record(path) == flight
    recorder.close()


def test_the_longest_ids_of_a_full_step_fit(tmp_path: Path) -> None:
    path = tmp_path / "flight"
    recorder = FlightRecorder(path, max_requests=300)
    ids = [f"{number:0128d}" for number in range(300)]
    recorder.record(FlightRecord(ids, ids))
    assert read_flight_record(path) == FlightRecord(ids, ids)
    recorder.close()


def test_it_outlives_the_process_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "flight"
    child = os.fork()
    if child == 0:
        FlightRecorder(path, max_requests=4).record(FlightRecord(["poison"], ["poison"]))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert read_flight_record(path) == FlightRecord(["poison"], ["poison"])


@pytest.mark.parametrize(
    "content",
    [b"", b"short", struct.pack("<QI", 3, 1) + b"\x90", struct.pack("<QI", 2, 9) + b"\xc1" * 9],
    ids=["empty", "cut", "half written", "no record"],
)
def test_what_is_no_whole_record_says_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "flight"
    path.write_bytes(content)
    assert read_flight_record(path) is None
    assert read_flight_record(tmp_path / "missing") is None
