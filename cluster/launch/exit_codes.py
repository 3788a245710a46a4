"""How `launch` and `cluster` end, for scripts and service managers."""

import enum


class ExitCode(enum.IntEnum):
    """The exit codes of both commands; `docs/operations.md` explains what to do about each."""

    OK = 0
    """Stopped when asked to, and every request was finished."""
    FAILED = 1
    """`launch`: the shutdown deadline cut some requests. `cluster`: the command was not obeyed."""
    BAD_SETTING = 2
    """A flag, file, model or port is wrong. Nothing was started."""
    NOT_STARTED = 3
    """A process died while starting, or none was ready by the deadline. Nothing is left running."""
    CANNOT_SERVE = 4
    """Every engine, or every frontend, died too often to be restarted at once."""
    INTERRUPTED = 130
    """Ended at once by a second SIGINT."""
    TERMINATED = 143
    """Ended at once by a second SIGTERM."""
