"""How fast an engine is, for whoever reads its log."""

import logging
import time

from engine.stats import EngineStats

THROUGHPUT_LOG_SECONDS = 10.0


class ThroughputLog:
    """One line every ten seconds while there is traffic."""

    def __init__(self) -> None:
        self._logger = logging.getLogger("engine")
        self._since = time.monotonic()
        self._last: EngineStats | None = None

    def observe(self, stats: EngineStats) -> None:
        """Log if it is time."""
        now = time.monotonic()
        last = self._last
        if last is None or now - self._since > 2 * THROUGHPUT_LOG_SECONDS:
            self._last, self._since = stats, now  # the first traffic after a quiet time
            return
        seconds = now - self._since
        if seconds < THROUGHPUT_LOG_SECONDS:
            return
        queries = stats.prefix_queries - last.prefix_queries
        hits = stats.prefix_hits - last.prefix_hits
        self._logger.info(
            "%.0f tok/s computed, running %d, waiting %d, KV %.0f %%, prefix hits %.0f %%, preemptions %d",
            (stats.computed_tokens - last.computed_tokens) / seconds,
            stats.running,
            stats.waiting,
            100 * stats.kv_cache_usage,
            100 * hits / queries if queries else 0,
            stats.preemptions - last.preemptions,
        )
        self._last, self._since = stats, now
