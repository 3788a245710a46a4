"""The command, over a tiny model: everything is measured, and the exit code says what came of it."""

import json
from pathlib import Path

import pytest

from loadtests import cli
from tests.support.tiny_model import make_tiny_model

pytestmark = pytest.mark.timeout(300)

TINY = ("--device=cpu", "--threads=1", "--batches=2,1", "--contexts=16,40", "--prefill-tokens=64",
        "--repeats=2", "--steps=2")  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(autouse=True)
def _environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")


def test_every_kind_of_step_is_measured_and_the_shortest_beside_transformers(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    exit_code = cli.main(["engine", f"--model={folder}", *TINY, f"--json={file}"])
    report = json.loads(file.read_text())
    assert exit_code == (0 if all(line["is_kept"] for line in report["lines"]) else 1)
    assert len(report["lines"]) == 2
    rows = {(row["kind"], row["batch"], row["context"]): row for row in report["rows"]}
    assert list(rows) == [
        ("prefill", 1, 64),
        ("decode", 1, 16),
        ("decode", 2, 16),
        ("decode", 1, 40),
        ("decode", 2, 40),
    ]
    for (_, _, context), row in rows.items():
        assert len(row["step_seconds"]) == 2
        assert min(row["step_seconds"]) > row["floor_seconds"] > 0
        assert len(row["reference_step_seconds"]) == (0 if context == 40 else 2)
    assert [overhead["runner"] for overhead in report["overheads"]] == ["simulated", "model"]
    assert 0 <= report["others_share"] <= 1
    text = capsys.readouterr().out
    assert "decode, batch 2, context 40" in text
    assert "GFLOP/s" in text


def test_without_transformers_only_the_report_is_on_standard_output(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--contexts=16", "--batches=1", "--no-reference", "--json=-")
    assert cli.main(["engine", f"--model={folder}", *TINY, *flags]) in (0, 1)
    report = json.loads(capsys.readouterr().out)
    assert not any(row["reference_step_seconds"] for row in report["rows"])


def test_perplexity_is_printed_instead(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("What is the capital of France?")
    flags = (f"--model={folder}", "--device=cpu", "--threads=1", f"--perplexity={text}")
    assert cli.main(["engine", *flags]) == 0
    assert "with float32 weights" in capsys.readouterr().out


def test_a_folder_that_is_no_model_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["engine", f"--model={tmp_path}", *TINY]) == 2
    assert "config.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [
        ["--batches=1,0"],
        ["--contexts="],
        ["--perplexity=no-such-file"],
        ["--shape=2b"],
        ["--shape=1b", "--model=x"],
    ],
)
def test_flags_that_mean_nothing_are_refused(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["engine", *flags])
    assert stopped.value.code == 2
    assert flags[0].partition("=")[0] in capsys.readouterr().err
