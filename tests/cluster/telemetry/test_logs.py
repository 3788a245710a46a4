"""A log line says who, when and how bad, for people or for programs."""

import json
import logging
import sys
import time
from collections.abc import Iterator

import pytest

from cluster.telemetry.logs import (
    ConsoleFormatter,
    JsonFormatter,
    LogFormat,
    RateLimited,
    configure_logging,
)


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    fields = {"name": "engine", "levelname": "WARNING", "levelno": logging.WARNING, **extra}
    made = logging.makeLogRecord({"msg": message, "args": args, **fields})
    made.created, made.msecs = 1_000_000_000.25, 250.0
    return made


def failed(message: str) -> logging.LogRecord:
    try:
        raise ValueError("of the \ud800 worst kind")
    except ValueError:
        return record(message, exc_info=sys.exc_info())


def test_a_console_line_has_clock_process_level_and_text() -> None:
    line = ConsoleFormatter("engine 1.2").format(record("%d blocks", 7))
    clock = time.strftime("%H:%M:%S", time.localtime(1_000_000_000))
    assert line == f"{clock}.250 engine 1.2     WARNING 7 blocks"


def test_a_console_line_has_its_traceback_below() -> None:
    first, *rest = ConsoleFormatter("engine 1.2").format(failed("no step")).splitlines()
    assert first.endswith("WARNING no step")
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-1].startswith("ValueError: of the")


def test_a_json_line_is_one_object_with_the_request_it_is_about() -> None:
    line = JsonFormatter("engine 1.2").format(record("line\n%s", "two", request_id="cmpl-1"))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": 1_000_000_000.25,
        "level": "warning",
        "process": "engine 1.2",
        "logger": "engine",
        "message": "line\ntwo",
        "request_id": "cmpl-1",
    }


def test_half_a_character_is_escaped_in_json_and_never_raised_on() -> None:
    fields = json.loads(JsonFormatter("x").format(record("a \udcff b", request_id="\ud800")))
    assert (fields["message"], fields["request_id"]) == (r"a \udcff b", r"\ud800")
    assert (
        r"of the \ud800 worst kind"
        in json.loads(JsonFormatter("x").format(failed("m")))["traceback"]
    )


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger, which is afterwards as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("root_logger")
@pytest.mark.parametrize("log_format", ["console", "json"])
def test_every_line_of_a_process_names_it(
    log_format: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("engine 7.1", "info", log_format)
    logging.getLogger("engine").info("half a character: \udcff")
    logging.getLogger("engine").debug("a detail")
    logging.getLogger("hypercorn.error").info("a greeting")
    (line,) = capsys.readouterr().err.splitlines()
    assert "engine 7.1" in line
    assert line.startswith("{") == (log_format == "json")


def test_warnings_of_one_kind_are_counted_after_the_first(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    complaints = RateLimited(logging.getLogger("test"), every_seconds=10)
    for number in range(4):
        complaints.warning("bad frame", "frame %d", number)
    complaints.warning("state", "a full disk")
    now = 110.0
    complaints.warning("bad frame", "frame %d", 4)
    now = 120.0
    complaints.warning("bad frame", "frame %d", 5)
    assert caplog.messages == ["frame 0", "a full disk", "frame 4 (and 3 more like it)", "frame 5"]
