"""Processes of this machine: whether they run, their children, what they hold."""

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import psutil


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


class ProcessResources(NamedTuple):
    """What a process holds at a moment."""

    resident_bytes: int
    open_files: int
    tcp_connections: int
    """Established ones."""


def resources_of(pid: int) -> ProcessResources | None:
    """What a process holds; None if it has ended."""
    try:
        process = psutil.Process(pid)
        connections = _tcp_connections(process)
        with process.oneshot():
            return ProcessResources(process.memory_info().rss, process.num_fds(), connections)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def _tcp_connections(process: psutil.Process) -> int:
    connections = process.net_connections(kind="tcp")
    return sum(connection.status == psutil.CONN_ESTABLISHED for connection in connections)


def processes_below(directory: Path, but: Iterable[int] = ()) -> list[int]:
    """Running processes that were told to work in a folder, by their arguments or environment."""
    found = []
    text = str(directory).encode()
    left_out = set(but)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) in left_out:
            continue
        with contextlib.suppress(OSError):
            told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            if text in told and is_running(int(entry.name)):
                found.append(int(entry.name))
    return found


def send_signal(pid: int, send: Callable[[int], None]) -> bool:
    """Call `send` with the pid; False if the process is gone, or there is none (0)."""
    if pid <= 0:
        return False  # to the kernel 0 and below are whole groups, our own among them
    try:
        send(pid)
    except ProcessLookupError:
        return False
    return True
