"""What a cluster has counted and used up since its start; two of them tell what a load did."""

from collections.abc import Iterable
from typing import NamedTuple

import psutil

from loadtests.drills.cluster import Cluster, sum_samples


class ServerState(NamedTuple):
    """Counters at one moment."""

    looked_up_tokens: float
    """Prompt tokens looked up in prefix caches."""
    hit_tokens: float
    engine_requests: tuple[float, ...]
    """Requests sent to each engine, by rank."""
    processor_seconds: float
    """Of all processes of the cluster."""

    @classmethod
    def of(cls, cluster: Cluster, num_engines: int) -> "ServerState":
        """As it is now."""
        metrics = cluster.get("/metrics").text
        return cls(
            sum_samples(metrics, "quadriga_prefix_cache_queries_total"),
            sum_samples(metrics, "quadriga_prefix_cache_hits_total"),
            tuple(
                sum_samples(metrics, "quadriga_routing_decisions_total", engine=str(rank))
                for rank in range(num_engines)
            ),
            _processor_seconds([cluster.process.pid, *cluster.all_pids()]),
        )

    def since(self, earlier: "ServerState") -> "ServerState":
        """What was added after `earlier`."""
        return ServerState(
            self.looked_up_tokens - earlier.looked_up_tokens,
            self.hit_tokens - earlier.hit_tokens,
            tuple(
                now - then
                for now, then in zip(self.engine_requests, earlier.engine_requests, strict=True)
            ),
            self.processor_seconds - earlier.processor_seconds,
        )

    @property
    def hit_share(self) -> float:
        """Of the tokens looked up, those found."""
        return self.hit_tokens / self.looked_up_tokens if self.looked_up_tokens else 0.0


def _processor_seconds(pids: Iterable[int]) -> float:
    total = 0.0
    for pid in pids:
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
