"""A process's log is whole lines, bounded, and never in the way."""

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.launch import process_log
from cluster.launch.process_log import TAIL_LINES, ProcessLog
from cluster.telemetry.logs import RateLimited


def fed(path: Path, pieces: list[bytes]) -> tuple[ProcessLog, list[str]]:
    forwarded: list[str] = []
    log = ProcessLog(path, forwarded.append)
    for piece in pieces:
        log.feed(piece)
    log.finish()
    return log, forwarded


def test_lines_arrive_whole_however_they_were_cut(tmp_path: Path) -> None:
    log, forwarded = fed(tmp_path / "a.log", [b"fir", b"st\nsec", b"ond\nthird"])
    assert forwarded == ["first\n", "second\n", "third\n"]
    assert (tmp_path / "a.log").read_text() == "first\nsecond\nthird\n"
    assert log.tail == ["first", "second", "third"]


@given(pieces=st.lists(st.binary(max_size=30), max_size=20))
def test_nothing_is_lost_or_added_but_a_last_line_end(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("log") / "a.log"
    fed(path, pieces)
    printed = b"".join(pieces)
    assert path.read_bytes() == printed + (b"\n" if printed and printed[-1:] != b"\n" else b"")


def test_only_the_last_lines_are_at_hand(tmp_path: Path) -> None:
    log, _ = fed(tmp_path / "a.log", [b"%d\n" % number for number in range(100)])
    assert log.tail == [str(number) for number in range(100 - TAIL_LINES, 100)]


def test_a_line_without_end_is_passed_on_in_parts(tmp_path: Path) -> None:
    _, forwarded = fed(tmp_path / "a.log", [b"x" * (process_log.MAX_LINE_BYTES + 1), b"y"])
    assert [len(text) for text in forwarded] == [process_log.MAX_LINE_BYTES + 2, 2]


def test_a_long_log_is_begun_anew_and_one_older_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_log, "MAX_FILE_BYTES", 100)
    fed(tmp_path / "a.log", [b"%099d\n" % number for number in range(5)])
    assert int((tmp_path / "a.log").read_text()) == 4
    assert int((tmp_path / "a.log.1").read_text()) == 3
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_is_gone_costs_the_file_only(tmp_path: Path) -> None:
    log, forwarded = fed(tmp_path / "gone" / "a.log", [b"line\n"])
    assert (log.tail, forwarded) == (["line"], ["line\n"])


def test_a_full_disk_costs_the_files_and_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process_log, "_complaints", RateLimited(logging.getLogger("launch")))
    for name in ("a.log", "b.log"):
        (tmp_path / name).symlink_to("/dev/full")
        log, forwarded = fed(tmp_path / name, [b"first\n", b"second\n"])
        assert (log.tail, forwarded) == (["first", "second"], ["first\n", "second\n"])
    assert caplog.messages == [f"{tmp_path}/a.log was not written: No space left on device"]
