"""Log lines for people on a terminal, JSON lines otherwise; each names its process."""

import logging
import sys
import time
from typing import Literal

import msgspec

LogFormat = Literal["auto", "console", "json"]


class ConsoleFormatter(logging.Formatter):
    """`15:04:05.123 engine 1.2    INFO  text`, with the traceback below where there is one."""

    def __init__(self, process_name: str) -> None:
        super().__init__()
        self._process_name = process_name

    def format(self, record: logging.LogRecord) -> str:
        """One readable line; text that is not valid Unicode is escaped, never raised on."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        head = f"{clock}.{int(record.msecs):03d} {self._process_name:<14} {record.levelname:<7}"
        text = f"{head} {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return _printable(text)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, process, logger, message, and `extra` fields."""

    def __init__(self, process_name: str) -> None:
        super().__init__()
        self._process_name = process_name

    def format(self, record: logging.LogRecord) -> str:
        """One JSON line; text that is not valid Unicode is escaped, never raised on."""
        fields: dict[str, object] = {
            "time": record.created,
            "level": record.levelname.lower(),
            "process": self._process_name,
            "logger": record.name,
            "message": _printable(record.getMessage()),
        }
        request_id = getattr(record, "request_id", None)
        if request_id is not None:
            fields["request_id"] = _printable(str(request_id))
        if record.exc_info:
            fields["traceback"] = _printable(self.formatException(record.exc_info))
        return msgspec.json.encode(fields).decode()


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def configure_logging(process_name: str, level: str, log_format: LogFormat = "auto") -> None:
    """Send this process's log to standard error, in the format that suits whoever reads it."""
    as_console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((ConsoleFormatter if as_console else JsonFormatter)(process_name))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("hypercorn.access", "hypercorn.error", "asyncio", "transformers", "filelock"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))


class RateLimited:
    """Logs the first of many alike warnings, then at most one in `every_seconds`, with a count."""

    def __init__(self, logger: logging.Logger, every_seconds: float = 10.0) -> None:
        self._logger = logger
        self._every_seconds = every_seconds
        self._next_at: dict[str, float] = {}
        self._suppressed: dict[str, int] = {}

    def warning(self, kind: str, text: str, *args: object) -> None:
        """Log `text % args` unless one of the same kind was logged a moment ago."""
        now = time.monotonic()
        if now < self._next_at.get(kind, 0.0):
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return
        self._next_at[kind] = now + self._every_seconds
        suppressed = self._suppressed.pop(kind, 0)
        if suppressed:
            text += f" (and {suppressed} more like it)"
        self._logger.warning(text, *args)
