"""A cluster's status as text for people."""

import shlex
from collections.abc import Sequence

from cluster.launch.status import ClusterStatus, ProcessStatus

_HEADINGS = ("PROCESS", "STATE", "PID", "UP", "RESTARTS", "RUNNING", "WAITING", "KV", "LAST EXIT")
_RIGHT_ALIGNED = {"PID", "UP", "RESTARTS", "RUNNING", "WAITING", "KV"}


def render_status(status: ClusterStatus, verbose: bool) -> str:
    """A head line and a table of processes; `verbose` adds how to start each by hand."""
    head = (
        f"cluster {status.id} is {status.state}: {status.model} at {status.url}, "
        f"up {_duration(status.uptime_seconds)}, launch has pid {status.pid}"
    )
    lines = [
        head,
        f"run directory {status.run_directory}",
        *([f"under way: {status.operation}"] if status.operation else []),
        "",
        *_table([_HEADINGS, *map(_row, status.processes)]),
    ]
    if verbose:
        lines += ["", *(line for process in status.processes for line in _by_hand(process))]
    return "\n".join(lines)


def _row(process: ProcessStatus) -> tuple[str, ...]:
    state = process.state
    if 0 < process.progress < 1:
        state += f" {process.progress:.0%}"
    usage = process.kv_cache_usage
    return (
        f"{process.name}.{process.incarnation}",
        state,
        str(process.pid or "-"),
        _duration(process.uptime_seconds) if process.pid else "-",
        str(process.restarts),
        "-" if process.running is None else str(process.running),
        "-" if process.waiting is None else str(process.waiting),
        "-" if usage is None else f"{usage:.0%}",
        process.last_exit or "-",
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_cells(row, widths)).rstrip() for row in rows]


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.rjust(width) if heading in _RIGHT_ALIGNED else cell.ljust(width)
        for cell, width, heading in zip(row, widths, _HEADINGS, strict=True)
    ]


def _by_hand(process: ProcessStatus) -> list[str]:
    variables = " ".join(
        f"{name}={shlex.quote(value)}" for name, value in process.environment.items()
    )
    return [
        f"{process.name}: log {process.log}",
        f"  {variables} {shlex.join(process.command)}",
    ]


def _duration(seconds: float) -> str:
    """`42s`, `3m07s`, `5h02m` or `4d01h`."""
    whole = int(seconds)
    for large, small, unit, subunit in ((86400, 3600, "d", "h"), (3600, 60, "h", "m"), (60, 1, "m", "s")):  # fmt: skip
        if whole >= large:
            return f"{whole // large}{unit}{whole % large // small:02d}{subunit}"
    return f"{whole}s"
