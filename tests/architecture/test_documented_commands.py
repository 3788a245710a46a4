"""Whatever a page tells its reader to type exists."""

from pathlib import Path

import pytest

from tests.architecture.commands import make_targets, problem_of, split_commands
from tests.architecture.repository import ROOT, code_lines, documents


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_in_code_blocks_exist_with_their_flags(document: Path) -> None:
    problems = [
        f"{line}: {problem}"
        for line in code_lines(document)
        for words in split_commands(line)
        if (problem := problem_of(words)) is not None
    ]
    assert not problems


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("launch --dp 2 --no-such-flag", "--no-such-flag"),
        ("$ QUADRIGA_PORT=1 .venv/bin/launch --dpp 2  # comment", "--dpp"),
        ("make demo && make nothing", "nothing"),
        ("make -C somewhere tset DP=4", "tset"),
        ("python -m loadtests walk", "walk"),
        (".venv/bin/python -m loadtests run --speed 3", "--speed"),
        ("curl x | python3 -m cluster.launch --prot 1", "--prot"),
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str, problem: str) -> None:
    found = [problem_of(words) for words in split_commands(line)]
    assert problem in (found[-1] or "")


@pytest.mark.parametrize(
    "line",
    [
        "launch --dp 2 --port=8001 &",
        "make -C elsewhere test",
        "VENV=other make check",
        "python -m loadtests run --url http://127.0.0.1:8000 --rate 4",
        "curl -s http://127.0.0.1:8000/health",
        "don't parse me",
    ],
)
def test_a_command_that_exists_or_is_not_ours_is_let_pass(line: str) -> None:
    assert [problem_of(words) for words in split_commands(line)] in ([None], [])


def test_every_target_for_people_says_what_it_does() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in make_targets():
        (line,) = [line for line in makefile.splitlines() if line.startswith(f"{target}:")]
        assert "## " in line, target


def test_the_continuous_integration_runs_both_gates() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111
    lines = script.read_text().splitlines()
    assert "make check" in lines
    assert "make test" in lines
