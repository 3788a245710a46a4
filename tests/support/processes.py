"""Processes of this machine, looked up in /proc."""

from pathlib import Path

from loadtests.drills.processes import is_running

__all__ = ["children_of", "is_running"]


def children_of(pid: int) -> list[int]:
    """The direct children of a process's main thread."""
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []
