"""The log of one process: a file of bounded size, and its last lines at hand."""

import contextlib
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path

from cluster.telemetry.logs import RateLimited

MAX_FILE_BYTES = 16 * 1024 * 1024
"""A longer log is begun anew, one older file being kept: a run directory may be in memory."""

MAX_LINE_BYTES = 64 * 1024
TAIL_LINES = 20

_complaints = RateLimited(logging.getLogger("launch"), every_seconds=60.0)
"""One for all logs: they share a disk."""


class ProcessLog:
    """Takes what a process prints, in any pieces, and passes it on in whole lines.

    A full disk costs log lines, never the process that writes them.
    """

    def __init__(self, path: Path, forward: Callable[[str], None]) -> None:
        self.path = path
        self._forward = forward
        self._partial = b""
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        with contextlib.suppress(OSError):
            self.path.touch(mode=0o600)

    @property
    def tail(self) -> list[str]:
        """The last lines."""
        return list(self._tail)

    def feed(self, data: bytes) -> None:
        """Take in some bytes."""
        whole, newline, self._partial = (self._partial + data).rpartition(b"\n")
        if len(self._partial) > MAX_LINE_BYTES:
            whole, newline, self._partial = whole + newline + self._partial, b"\n", b""
        if newline:
            self._pass_on(whole + newline)

    def finish(self) -> None:
        """Pass on a last line that has no end."""
        if self._partial:
            self.feed(b"\n")

    def _pass_on(self, lines: bytes) -> None:
        text = lines.decode("utf-8", "replace")
        self._tail.extend(text.splitlines())
        self._forward(text)
        try:
            if self.path.stat().st_size + len(lines) > MAX_FILE_BYTES:
                self.path.replace(self.path.with_suffix(".log.1"))
            with self.path.open("ab") as file:
                file.write(lines)
        except OSError as error:
            _complaints.warning("log file", "%s was not written: %s", self.path, error.strerror)
