"""Standard error, shared by log lines and a live block of progress, and never waited for."""

import contextlib
import os
import queue
import threading
from collections.abc import Sequence

MAX_QUEUED_CHARACTERS = 1_000_000


class ErrorOutput:
    """Writes to standard error from a thread of its own.

    A terminal that was paused, or a pipe that nobody reads, then holds up nothing: what does not
    fit in the queue is dropped. On a terminal, a block of live lines stays below everything else.
    """

    def __init__(self, descriptor: int = 2) -> None:
        # Not sys.stderr: a thread that waits in there would hold its lock when the process ends.
        self._descriptor = descriptor
        self.is_terminal = os.isatty(descriptor)
        self._queue: queue.SimpleQueue[tuple[str, Sequence[str]] | None] = queue.SimpleQueue()
        self._queued_characters = 0
        self._lock = threading.Lock()
        self._live: Sequence[str] = ()
        self._thread = threading.Thread(target=self._pump, name="error-output", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Queue whole lines."""
        self._put(text)

    def flush(self) -> None:
        """Nothing to do: the thread flushes. Here so that a log handler can write to this."""

    def show(self, lines: Sequence[str]) -> None:
        """Let these be the live lines, in place of those before; none with an empty sequence."""
        if self.is_terminal and lines != self._live:
            self._live = lines
            self._put("")

    def close(self, timeout_seconds: float = 1.0) -> None:
        """Write what is queued, unless nobody reads it in that time."""
        self.show([])
        self._queue.put(None)
        self._thread.join(timeout_seconds)

    def _put(self, text: str) -> None:
        with self._lock:
            if self._queued_characters + len(text) > MAX_QUEUED_CHARACTERS:
                return
            self._queued_characters += len(text)
        self._queue.put((text, self._live))

    def _pump(self) -> None:
        num_shown = 0
        while (item := self._queue.get()) is not None:
            text, live = item
            with self._lock:
                self._queued_characters -= len(text)
            erase = f"\x1b[{num_shown}F\x1b[J" if num_shown else ""
            block = self._fitted(live)
            num_shown = len(block)
            self._write(erase + text + "".join(line + "\n" for line in block))

    def _fitted(self, live: Sequence[str]) -> list[str]:
        """What of the live lines fits: what has left the screen could not be erased."""
        if not live:
            return []
        columns, rows = self._terminal_size()
        block = list(live)
        if len(block) >= rows:
            block[rows - 2 :] = [f"  … and {len(block) - rows + 2} more"]
        return [line[: columns - 1] for line in block]

    def _terminal_size(self) -> tuple[int, int]:
        """Columns and rows; the usual ones where a terminal does not know, or has next to none."""
        columns, rows = 0, 0
        with contextlib.suppress(OSError):
            columns, rows = os.get_terminal_size(self._descriptor)
        return columns if columns > 1 else 80, rows if rows > 1 else 24

    def _write(self, text: str) -> None:
        rest = text.encode("utf-8", "backslashreplace")
        with contextlib.suppress(OSError):
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
