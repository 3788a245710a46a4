"""The measurement of starts: what it reads in the log, what it says, and when it fails."""

import json
import mmap
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loadtests import cli, start_benchmark
from loadtests.drills.drill import DrillError
from loadtests.start_benchmark import (
    StartOptions,
    first_token_at,
    footprint_of,
    measure_start,
    phase_seconds,
)
from loadtests.start_report import (
    ENGINE_LIMIT_BYTES,
    FIRST_ANSWER_LIMIT_SECONDS,
    MIB,
    Footprint,
    Start,
    StartReport,
    median_phases,
    start_lines,
)
from tests.support.scripted_engine import ScriptedEngine
from tests.support.served_frontend import Served, served_frontend


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with served_frontend(ScriptedEngine(lambda _: [40])) as served:
        yield served


def start(first_answer_seconds: float = 5.0, engine_mib: int = 500, kv_mib: int = 0) -> Start:
    return Start(
        first_answer_seconds,
        {"engine ready": first_answer_seconds - 0.5},
        [
            Footprint("launch", 0.5, 40 * MIB, 30 * MIB, 50 * MIB),
            Footprint("engine", 4.0, 100 * MIB, 90 * MIB, 900 * MIB),
            Footprint("engine", 6.0, (engine_mib + kv_mib) * MIB, 1, 1, kv_mib * MIB),
        ],
    )


def test_phases_are_those_of_the_last_process_of_a_role_in_its_first_life() -> None:
    messages = [
        (100.5, "engine 0.1 is loading"),
        (100.2, "coordinator.1 is ready"),
        (101.5, "engine 1.1 is loading"),
        (103.0, "engine 1.1 is ready"),
        (104.0, "engine 0.1 is ready"),
        (109.0, "engine 0.2 is ready"),
        (110.0, "frontend 0.1 is warming up"),
    ]
    lines = [json.dumps({"time": at, "message": text, "level": "info"}) for at, text in messages]
    log = "\n".join(["http://127.0.0.1:1 is ready", *lines, '{"no": "message"}', ""])
    assert phase_seconds(log, 100.0) == pytest.approx({
        "coordinator ready": 0.2, "engine loading": 1.5, "engine ready": 4.0,
        "frontend warming up": 10.0,
    })  # fmt: skip
    assert next(iter(phase_seconds(log, 100.0))) == "coordinator ready"


def test_phases_in_the_report_are_medians_in_order_of_time() -> None:
    starts = [
        Start(0.0, {"engine ready": ready, "frontend ready": 2.0}, []) for ready in (1.0, 9.0, 3.0)
    ]
    assert list(median_phases(starts).items()) == [("frontend ready", 2.0), ("engine ready", 3.0)]


def test_the_kv_cache_in_use_is_not_counted_and_the_largest_engine_is() -> None:
    assert start(engine_mib=500, kv_mib=200).largest_engine_bytes == 500 * MIB
    assert start(engine_mib=50).largest_engine_bytes == 100 * MIB


@pytest.mark.parametrize(
    ("starts", "is_kept"),
    [
        ([start(FIRST_ANSWER_LIMIT_SECONDS, ENGINE_LIMIT_BYTES // MIB)], True),
        ([start(FIRST_ANSWER_LIMIT_SECONDS + 0.1)], False),
        ([start(engine_mib=ENGINE_LIMIT_BYTES // MIB + 1)], False),
        ([start(), start(100.0, 9000), start()], True),
    ],
    ids=["at the limits", "too slow", "too large", "one with bad luck"],
)
def test_the_limits_hold_for_medians(starts: list[Start], is_kept: bool) -> None:
    report = StartReport(["--dp=2"], starts)
    assert report.is_kept == is_kept
    assert ("EXCEEDED" in "\n".join(start_lines(report, "2 cores"))) != is_kept


def test_the_report_has_a_line_for_each_role_and_phase() -> None:
    text = "\n".join(start_lines(StartReport(["--dp=2"], [start(4.0), start(6.0)]), "2 cores"))
    assert "launch --dp=2: 2 starts, 2 cores" in text
    assert "first answer 5.00 s (4.00 to 6.00; the first start 4.00)" in text
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}
    assert lines["engine"] == ["5.00", "300", "45", "450"]
    assert "engine ready              4.50" in text.splitlines()


def test_a_footprint_is_what_the_process_holds_now() -> None:
    before = footprint_of(os.getpid(), "test")
    # Pages of its own: what the process has freed and kept would not make it larger.
    with mmap.mmap(-1, 64 * MIB) as held:
        held.write(b"x" * len(held))
        after = footprint_of(os.getpid(), "test", kv_bytes=5)
    assert after.uss_bytes - before.uss_bytes >= 60 * MIB
    assert after.uss_bytes <= after.pss_bytes <= after.rss_bytes
    assert after.processor_seconds >= before.processor_seconds > 0
    assert (after.role, after.kv_bytes) == ("test", 5)


async def test_the_first_token_is_timed_when_it_arrives(served: Served) -> None:
    before = time.monotonic()
    assert before <= await first_token_at(served.url, before + 30) <= time.monotonic()


async def test_a_server_that_never_answers_is_given_up_with_its_last_word() -> None:
    with pytest.raises(DrillError, match="no token came: "):
        await first_token_at("http://127.0.0.1:1", time.monotonic())


@pytest.mark.parametrize(("seconds", "code"), [(5.0, 0), (500.0, 1)])
def test_the_command_says_it_by_its_exit_code(
    seconds: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[StartOptions] = []

    def measured(options: StartOptions) -> Start:
        asked.append(options)
        return start(seconds)

    monkeypatch.setattr(start_benchmark, "measure_start", measured)
    file = tmp_path / "starts.json"
    assert cli.main(["start", "--repeats", "3", "--dp", "4", "--json", str(file)]) == code
    assert asked == [StartOptions(4, 2, False)] * 3
    assert len(json.loads(file.read_text())["starts"]) == 3


def test_a_cluster_that_does_not_come_up_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: StartOptions) -> Start:
        raise DrillError("launch has ended: it could not")

    monkeypatch.setattr(start_benchmark, "measure_start", fail)
    assert cli.main(["start"]) == 1
    assert capsys.readouterr().err == "launch has ended: it could not\n"


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_a_real_start_is_measured_from_the_command_to_a_token() -> None:
    measured = measure_start(StartOptions(dp=1, frontends=1, simulated=True))
    phases = measured.phase_seconds
    assert {"coordinator ready", "engine ready", "frontend ready"} <= phases.keys()
    assert 0 < phases["engine ready"] < measured.first_answer_seconds + 1.0
    roles = [process.role for process in measured.footprints]
    assert sorted(roles) == ["coordinator", "engine", "frontend", "launch"]
    assert all(process.pss_bytes > MIB for process in measured.footprints)
