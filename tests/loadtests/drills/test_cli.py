from pathlib import Path

import msgspec
import pytest

from loadtests.drills.bodies import KINDS
from loadtests.drills.catalog import all_drills
from loadtests.drills.cli import main
from loadtests.drills.verdict import Verdict


def test_the_list_names_every_drill_with_its_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert all(drill.name in shown and drill.promise in shown for drill in all_drills())


def test_names_of_drills_are_unique() -> None:
    names = [drill.name for drill in all_drills()]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "name drills, or say --all"),
        (["kill-engine", "--all"], "name drills, or say --all"),
        (["kill-nobody"], "there is no drill kill-nobody"),
        (["kill-engine", "--against", "http://127.0.0.1:1"], "--i-mean-it"),
        (
            ["kill-engine", "--against", "http://127.0.0.1:1", "--i-mean-it"],
            "kill-engine needs a cluster of its own",
        ),
        (["kill-engine", "--i-mean-it"], "--i-mean-it goes with --against"),
    ],
)
def test_wrong_usage_is_explained(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["soak", "--minutes", "0"], "'0' is not a number above 0"),
        (["soak", "--json", "/nowhere/at/all.json"], "is not a file in a folder that is there"),
        (["soak", "--against", "ftp://x"], "is not an http:// or https:// address"),
    ],
)
def test_a_bad_argument_is_named(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_a_quick_drill_passes_against_a_real_cluster_and_writes_its_page(tmp_path: Path) -> None:
    files = {kind: tmp_path / f"drill.{kind}" for kind in ("json", "html", "markdown")}
    arguments = [part for kind, path in files.items() for part in (f"--{kind}", str(path))]
    logs = tmp_path / "logs"
    code = main(["kill-engine", "--kills", "2", "--keep-logs", str(logs), *arguments])
    (verdict,) = msgspec.json.decode(files["json"].read_bytes(), type=list[Verdict])
    assert code == 0, [check for check in verdict.checks if not check.passed]
    assert {exchange.kind for exchange in verdict.history.exchanges} == set(KINDS)
    assert [mark.text for mark in verdict.history.marks if mark.kind == "fault"] == [
        "kill engine 0",
        "kill engine 1",
    ]
    assert any(exchange.migrations for exchange in verdict.history.exchanges)
    assert "kill engine 1" in files["html"].read_text()
    assert "| `kill-engine` |" in files["markdown"].read_text()
    assert (logs / "kill-engine" / "launch.log").exists()
