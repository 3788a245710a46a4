"""The memory of a cluster's processes over time, and whether it grows without end."""

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from cluster.errors import ControlError
from loadtests.drills.cluster import Cluster
from loadtests.drills.processes import resources_of

SETTLING_SHARE = 0.3
"""A new process's memory grows until it has done everything once."""
LEAST_SECONDS = 120.0
"""Of a shorter life no slope can be told."""
MIB = 1024 * 1024


class Measurement(NamedTuple):
    """A process's memory at a moment."""

    at: float
    resident_bytes: int


class MemorySlopes:
    """Measures now and then; knows the slope of each process that has lived long enough."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._measured: dict[tuple[str, int], list[Measurement]] = {}

    async def measure(self) -> None:
        """Note what each process has now."""
        try:
            status = await asyncio.to_thread(self._cluster.status)
        except ControlError:
            return
        named = [(process.name, process.pid) for process in status.processes]
        for name, pid in [*named, ("launcher", status.pid)]:
            resources = resources_of(pid)
            if resources is not None:
                measured = self._measured.setdefault((name, pid), [])
                measured.append(Measurement(time.monotonic(), resources.resident_bytes))

    def mib_per_hour(self) -> dict[str, float]:
        """By how much each process grows once it has settled; of several lives, the fastest."""
        found: dict[str, float] = {}
        for (name, _), measured in self._measured.items():
            slope = slope_of(measured)
            if slope is not None:
                found[name] = max(found.get(name, slope), slope)
        return found


def slope_of(measured: Sequence[Measurement]) -> float | None:
    """MiB an hour by a linear fit; None for too short a life."""
    if not measured or measured[-1].at - measured[0].at < LEAST_SECONDS:
        return None
    settled = measured[int(len(measured) * SETTLING_SHARE) :]
    if len(settled) < 3:
        return None
    mean_at = sum(m.at for m in settled) / len(settled)
    mean_bytes = sum(m.resident_bytes for m in settled) / len(settled)
    spread = sum((m.at - mean_at) ** 2 for m in settled)
    rise = sum((m.at - mean_at) * (m.resident_bytes - mean_bytes) for m in settled)
    return rise / spread * 3600 / MIB
