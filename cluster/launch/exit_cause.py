"""Why a process ended, in words, and whether it is to blame."""

import signal
from pathlib import Path
from typing import NamedTuple

_OUTSIDE_SIGNALS = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Sent by people and service managers; all others come from what the process did itself."""


class ExitCause(NamedTuple):
    """What ended a process."""

    text: str
    """A kind, and after a colon the details: `SIGKILL`, `exit code 1`, `hung: no step for 3 s`."""
    fault: bool
    """Whether something in the process is to blame, rather than somebody outside."""

    @property
    def kind(self) -> str:
        """The text without details: one of few, as a metric's label must be."""
        return self.text.partition(":")[0]


def explain_exit(return_code: int, is_out_of_memory: bool) -> ExitCause:
    """The cause behind a return code as subprocess gives it (negative for a signal)."""
    if return_code >= 0:
        return ExitCause(f"exit code {return_code}", fault=return_code != 0)
    try:
        number = signal.Signals(-return_code)
    except ValueError:
        return ExitCause(f"signal {-return_code}", fault=True)
    if number is signal.SIGKILL and is_out_of_memory:
        return ExitCause("out of memory: SIGKILL, most likely by the kernel", fault=True)
    return ExitCause(number.name, fault=number not in _OUTSIDE_SIGNALS)


class OutOfMemoryWatch:
    """Tells whether the kernel has killed for lack of memory of late, without reading its log."""

    def __init__(self) -> None:
        self._kills = _count_kills()

    def has_struck(self) -> bool:
        """Whether there was such a kill since the last call."""
        before, self._kills = self._kills, _count_kills()
        return self._kills > before


def _count_kills() -> int:
    """Kills in this process's control group; on older kernels those of the whole machine."""
    for counters in (_own_control_group() / "memory.events", Path("/proc/vmstat")):
        try:
            lines = counters.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def _own_control_group() -> Path:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    unified = [line.removeprefix("0::") for line in lines if line.startswith("0::")]
    return Path("/sys/fs/cgroup") / (unified[0].lstrip("/") if unified else "")
