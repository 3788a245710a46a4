"""Deadlines are kept on the monotonic clock: the wall clock may jump."""

import re
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT

WALL_CLOCK = re.compile(
    r"\btime\.time(_ns)?\(|\bdatetime\.now\(|\butcnow\(|from time import .*\btime\b"
)
FOR_PEOPLE_AND_CLIENTS = {
    "frontend/chat_template.py",
    "frontend/openai/chat_answer.py",
    "frontend/openai/completion_answer.py",
    "frontend/responses_api/answer.py",
    "loadtests/start_benchmark.py",
}
"""Where a time of day is shown, or set beside those of a log, and nothing is decided by it."""


def users_of_the_wall_clock() -> set[str]:
    rooms = ("cluster", "coordinator", "engine", "frontend", "loadtests")
    files = [path for room in rooms for path in Path(ROOT / room).rglob("*.py")]
    return {str(path.relative_to(ROOT)) for path in files if WALL_CLOCK.search(path.read_text())}


def test_only_what_people_read_has_the_time_of_day() -> None:
    assert users_of_the_wall_clock() == FOR_PEOPLE_AND_CLIENTS


@pytest.mark.parametrize(
    "line", ["deadline = time.time() + 5", "now = datetime.now()", "time.time_ns()"]
)
def test_the_wall_clock_is_recognized(line: str) -> None:
    assert WALL_CLOCK.search(line)
