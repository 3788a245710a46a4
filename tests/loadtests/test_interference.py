"""The measurement of what large requests cost others: what it sends, and what it says."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from loadtests import cli, interference
from loadtests.http_client import BrokenConnection
from loadtests.interference import (
    Interference,
    InterferenceOptions,
    felt_gap,
    interference_text,
    measure,
)
from loadtests.large_requests import large_body, long_prompt
from loadtests.record import RequestRecord, TokenArrival
from tests.support.scripted_engine import ScriptedEngine
from tests.support.served_frontend import Served, served_frontend


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    engine = ScriptedEngine(lambda _: [40 + i % 20 for i in range(50)])
    async with served_frontend(engine, max_body_bytes=2000) as served:
        yield served


def options(url: str, **more: Any) -> InterferenceOptions:
    given: dict[str, Any] = {
        "url": url, "api_key": None, "model": None, "streams": 3, "output_tokens": 8,
        "seconds": 0.5, "body_bytes": 5000, "prompt_tokens": 60,
    }  # fmt: skip
    return InterferenceOptions(**(given | more))


async def test_both_phases_are_measured_and_large_requests_are_answered(served: Served) -> None:
    found = await measure(options(served.url))
    assert found.quiet_p99_seconds > 0
    assert found.disturbed_p99_seconds > 0
    assert found.failed_streams == 0
    assert found.posts.keys() == {"body 413", "prompt 200"}


async def test_streams_that_bring_nothing_are_an_error_in_words(served: Served) -> None:
    with pytest.raises(BrokenConnection, match="does not exist"):
        await measure(options(served.url, model="other"))


def test_large_requests_are_as_large_as_they_are_said_to_be() -> None:
    assert 100_000 <= len(large_body("m", 100_000).body) < 100_200
    assert len(json.loads(long_prompt("m", 300).body)["prompt"]) == 300


def test_the_gap_that_is_felt_is_that_of_all_streams_together() -> None:
    arrivals = [[0.0, 1.0, 2.0], [0.0, 3.0]]
    records = [
        RequestRecord(0.0, arrivals=[TokenArrival(at, 1) for at in times]) for times in arrivals
    ]
    assert felt_gap(records) == pytest.approx(3.0, abs=0.05)


@pytest.mark.parametrize(
    ("disturbed", "failed", "is_kept"), [(1.2, 0, True), (1.21, 0, False), (1.0, 1, False)]
)
def test_the_line_is_a_fifth_more_and_no_stream_harmed(
    disturbed: float, failed: int, is_kept: bool
) -> None:
    found = Interference(1.0, disturbed, {"body 400": 2}, failed)
    assert found.is_kept == is_kept
    assert ("EXCEEDED" in interference_text(found)) != is_kept
    assert "2 × body 400" in interference_text(found)


@pytest.mark.parametrize(("disturbed", "code"), [(1.0, 0), (9.0, 1)])
def test_the_command_says_it_by_its_exit_code(
    disturbed: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measured(_: InterferenceOptions) -> Interference:
        return Interference(1.0, disturbed, {}, 0)

    monkeypatch.setattr(interference, "measure", measured)
    file = tmp_path / "found.json"
    assert cli.main(["interference", "--json", str(file)]) == code
    assert json.loads(file.read_text())["disturbed_p99_seconds"] == disturbed


def test_a_server_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["interference", "--url", "http://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("http://127.0.0.1:1: ")
