"""Resident memory of a cluster's processes, before and after something."""

import asyncio

from loadtests.drills.cluster import Cluster
from loadtests.drills.processes import resources_of
from loadtests.drills.stage import Stage

MEBIBYTE = 2**20


class MemoryGrowth:
    """Remembers what each process held."""

    def __init__(self, cluster: Cluster, before: dict[str, int]) -> None:
        self._cluster = cluster
        self._before = before

    @classmethod
    async def start(cls, cluster: Cluster) -> "MemoryGrowth":
        """From now on."""
        return cls(cluster, await asyncio.to_thread(_resident, cluster))

    async def growth(self) -> dict[str, float]:
        """MiB that each process holds more than at the start."""
        after = await asyncio.to_thread(_resident, self._cluster)
        return {
            name: (after[name] - size) / MEBIBYTE
            for name, size in self._before.items()
            if name in after
        }

    async def check(self, stage: Stage, limit_mebibytes: float) -> None:
        """Check that no process has grown by more than so much."""
        growth = await self.growth()
        name = max(growth, key=lambda each: growth[each])
        stage.check_at_most(
            "memory that a process has grown by", growth[name], limit_mebibytes, "MiB"
        )


def _resident(cluster: Cluster) -> dict[str, int]:
    found = {}
    for process in cluster.status().processes:
        resources = resources_of(process.pid)
        if resources is not None:
            found[process.name] = resources.resident_bytes
    return found
