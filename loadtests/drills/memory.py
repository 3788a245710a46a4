"""Resident memory of a cluster's processes over a long time."""

import asyncio
import time

from loadtests.drills.cluster import Cluster
from loadtests.drills.processes import resources_of

MEBIBYTE = 2**20
FEWEST_POINTS = 4
"""Of a process that has lived for less, nothing can be said."""


class MemoryWatch:
    """Measures every process now and then; each incarnation is a process of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._points: dict[tuple[str, int], list[tuple[float, float]]] = {}

    async def measure(self) -> None:
        """Note what each process holds now."""
        for (name, pid), size in (await asyncio.to_thread(self._resident)).items():
            self._points.setdefault((name, pid), []).append((time.monotonic(), size))

    def _resident(self) -> dict[tuple[str, int], float]:
        found = {}
        for process in self._cluster.status().processes:
            resources = resources_of(process.pid)
            if resources is not None:
                found[process.name, process.pid] = resources.resident_bytes / MEBIBYTE
        return found

    def slopes(self) -> dict[str, float]:
        """MiB an hour by which each process grows: the line of least squares of its later half.

        Of the incarnations of one name the one that was measured longest counts.
        """
        longest: dict[str, list[tuple[float, float]]] = {}
        for (name, _), points in self._points.items():
            if len(points) > len(longest.get(name, [])):
                longest[name] = points
        return {
            name: 3600 * slope(points[len(points) // 2 :])
            for name, points in longest.items()
            if len(points) >= 2 * FEWEST_POINTS
        }


def slope(points: list[tuple[float, float]]) -> float:
    """The slope of the line that fits the points best; 0.0 if they have no extent."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if not spread:
        return 0.0
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
