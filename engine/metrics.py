"""An engine's metrics, fed from the same snapshots as its load reports."""

from cluster.telemetry.metrics import counter, gauge, histogram
from engine.stats import EngineStats


class EngineMetrics:
    """Turns snapshots into Prometheus values. Used by one thread, off the busy loop."""

    def __init__(self, model_name: str, rank: int) -> None:
        labels = (model_name, str(rank))
        self._running = gauge("num_requests_running").labels(*labels)
        self._waiting = gauge("num_requests_waiting").labels(*labels)
        self._kv_cache_usage = gauge("kv_cache_usage_perc").labels(*labels)
        self._prefix_queries = counter("prefix_cache_queries").labels(*labels)
        self._prefix_hits = counter("prefix_cache_hits").labels(*labels)
        self._preemptions = counter("num_preemptions").labels(*labels)
        self._computed_tokens = counter("computed_tokens").labels(*labels)
        self._iteration_tokens = histogram("iteration_tokens_total").labels(*labels)
        self._queue_time = histogram("request_queue_time_seconds").labels(*labels)
        self._prefill_time = histogram("request_prefill_time_seconds").labels(*labels)
        self._decode_time = histogram("request_decode_time_seconds").labels(*labels)
        self._bad_frames = counter("wire_bad_frames").labels(f"engine-{rank}")
        self._last: EngineStats | None = None

    def observe(self, stats: EngineStats) -> None:
        """Take in a snapshot; counters grow by what happened since the one before."""
        last, self._last = self._last, stats
        self._running.set(stats.running)
        self._waiting.set(stats.waiting)
        self._kv_cache_usage.set(stats.kv_cache_usage)
        self._prefix_queries.inc(stats.prefix_queries - (last.prefix_queries if last else 0))
        self._prefix_hits.inc(stats.prefix_hits - (last.prefix_hits if last else 0))
        self._preemptions.inc(stats.preemptions - (last.preemptions if last else 0))
        self._computed_tokens.inc(stats.computed_tokens - (last.computed_tokens if last else 0))
        if stats.step != (last.step if last else 0):
            self._iteration_tokens.observe(stats.step_tokens)
        for timings in stats.finished:
            self._queue_time.observe(timings.queue_seconds)
            self._prefill_time.observe(timings.prefill_seconds)
            self._decode_time.observe(timings.decode_seconds)

    def bad_frame(self) -> None:
        """A frame was no message."""
        self._bad_frames.inc()
