"""Processes of this machine, looked up in /proc."""

from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def children_of(pid: int) -> list[int]:
    """The direct children of a process's main thread."""
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []
