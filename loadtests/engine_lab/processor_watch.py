"""Whether the machine was ours while we measured."""

import os
from typing import NamedTuple

import psutil


class ProcessorSeconds(NamedTuple):
    """Processor time until a moment."""

    total: float
    """Of all cores, idle or not."""
    busy: float
    own: float
    """Of this process, and of those of its children that have ended."""

    @classmethod
    def now(cls) -> "ProcessorSeconds":
        """Until now."""
        machine, own = psutil.cpu_times(), os.times()
        total = float(sum(machine))
        idle = float(machine.idle + getattr(machine, "iowait", 0.0))
        # Linux counts the time of guests twice.
        guests = float(getattr(machine, "guest", 0.0) + getattr(machine, "guest_nice", 0.0))
        return cls(
            total=total - guests,
            busy=total - guests - idle,
            own=own.user + own.system + own.children_user + own.children_system,
        )

    def others_share_until(self, end: "ProcessorSeconds") -> float:
        """Of the processor time from here to `end`, what other processes took, 0 to 1."""
        total = end.total - self.total
        others = (end.busy - self.busy) - (end.own - self.own)
        return min(1.0, max(0.0, others / total)) if total > 0 else 0.0
