"""What more engines cost: the figures of a run, its row, and the whole command on small clusters."""

import json
from pathlib import Path

import pytest

from cluster.wire.codec import Encoder
from cluster.wire.messages import ClusterView, EngineEntry, EnginePhase, EngineState, LoadReport
from loadtests import cli
from loadtests.drills.drill import DrillError
from loadtests.frontend_lab.coordinator_meter import CoordinatorWork, mean_report_bytes
from loadtests.record import RequestRecord, TokenArrival
from loadtests.scale_benchmark import ScaleOptions, scale_flags, scale_line, scale_run

WORK = CoordinatorWork(0.1, 2000.0, 80.0)


def record(ttft_seconds: float, tokens: int, error: str | None = None) -> RequestRecord:
    return RequestRecord(
        10.0, arrivals=[TokenArrival(10.0 + ttft_seconds, tokens)], error_kind=error
    )


def test_goodput_is_the_share_of_tokens_in_whole_answers() -> None:
    options = ScaleOptions(output_tokens=4)
    records = [record(0.1, 4), record(0.3, 4), record(0.2, 4, "timeout"), record(0.2, 4)]
    run = scale_run(2, options, records, WORK)
    assert (run.requests, run.failed, run.goodput) == (4, 1, 0.75)
    assert run.ttft_p50_seconds == pytest.approx(0.2)
    assert not run.is_whole


def test_a_run_without_answers_is_an_error_in_words() -> None:
    with pytest.raises(DrillError, match="no request of 1"):
        scale_run(1, ScaleOptions(), [record(0.1, 1, "timeout")], WORK)


def test_a_row_has_its_ratios_to_the_first() -> None:
    options = ScaleOptions(output_tokens=4)
    first = scale_run(1, options, [record(0.1, 4)], WORK)
    more = scale_run(4, options, [record(0.2, 4)], CoordinatorWork(0.3, 8000.0, 80.0))
    line = scale_line(more, first)
    assert "TTFT p50 × 2.00" in line
    assert "coordinator × 3.00" in line
    assert "views × 4.00" in line


def test_a_coordinator_that_used_nothing_is_no_division_by_zero() -> None:
    run = scale_run(1, ScaleOptions(), [record(0.1, 16)], CoordinatorWork(0.0, 0.0, 0.0))
    assert "coordinator × ?" in scale_line(run, run)


def test_the_size_of_a_report_is_that_on_the_wire() -> None:
    report = LoadReport(0, 1, 1, EnginePhase.READY)
    entries = [
        EngineEntry(0, 1, EngineState.READY, report=report),
        EngineEntry(1, 1, EngineState.STARTING),
    ]
    view = ClusterView(1, 1, False, entries, [])
    expected = sum(map(len, Encoder().encode(report)))
    assert mean_report_bytes([b"view", *map(bytes, Encoder().encode(view))]) == expected
    assert mean_report_bytes([]) == 0


def test_a_cluster_has_as_many_engines_as_its_row_says() -> None:
    assert {"--dp=16", "--frontends=2"} <= set(scale_flags(16, ScaleOptions()))


@pytest.mark.e2e
@pytest.mark.timeout(120)
def test_the_command_measures_each_number_of_engines(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    code = cli.main(["scale", "--engines=1,2", "--frontends=1", "--seconds=2", "--json", str(file)])
    assert code == 0
    runs = json.loads(file.read_text())
    assert [run["engines"] for run in runs] == [1, 2]
    assert all(run["goodput"] == 1 and run["coordinator"]["report_bytes"] > 30 for run in runs)
    assert all(run["coordinator"]["view_bytes_per_second"] > 0 for run in runs)
