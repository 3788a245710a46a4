"""Standard error, shared by log lines and a live block of progress, and never waited for."""

import contextlib
import os
import queue
import shutil
import threading

_MAX_CHUNKS = 10_000


class ErrorOutput:
    """Writes to standard error from a thread of its own.

    A terminal that was paused, or a pipe that nobody reads, then holds up nothing: what does not
    fit in the queue is dropped. On a terminal, a block of live lines stays below everything else.
    """

    def __init__(self, descriptor: int = 2) -> None:
        # Not sys.stderr: a thread that waits in there would hold its lock when the process ends.
        self._descriptor = descriptor
        self.is_terminal = os.isatty(descriptor)
        self._queue: queue.Queue[str | None] = queue.Queue(_MAX_CHUNKS)
        self._live: list[str] = []
        self._thread = threading.Thread(target=self._pump, name="error-output", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Queue whole lines."""
        above = f"\x1b[{len(self._live)}F\x1b[J" if self._live else ""
        self._put(above + text + self._live_text())

    def flush(self) -> None:
        """Nothing to do: the thread flushes. Here so that a log handler can write to this."""

    def show(self, lines: list[str]) -> None:
        """Let these be the live lines, in place of those before; none with an empty list."""
        if not self.is_terminal or lines == self._live:
            return
        above = f"\x1b[{len(self._live)}F\x1b[J" if self._live else ""
        self._live = lines
        self._put(above + self._live_text())

    def close(self, timeout_seconds: float = 1.0) -> None:
        """Write what is queued, unless nobody reads it in that time."""
        self.show([])
        while self._queue.full():
            with contextlib.suppress(queue.Empty):
                self._queue.get_nowait()
        self._put(None)
        self._thread.join(timeout_seconds)

    def _live_text(self) -> str:
        width = shutil.get_terminal_size().columns if self._live else 0
        return "".join(line[: width - 1] + "\n" for line in self._live)

    def _put(self, text: str | None) -> None:
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(text)

    def _pump(self) -> None:
        while (text := self._queue.get()) is not None:
            rest = text.encode("utf-8", "backslashreplace")
            with contextlib.suppress(OSError):
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
