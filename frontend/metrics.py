"""What clients got, measured where they get it."""

from collections import Counter as Counts
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from prometheus_client import Counter

from cluster.telemetry.metrics import counter, gauge, histogram, withdraw
from cluster.wire.sampling import FinishReason
from frontend.buffered_histogram import BufferedHistogram, buffered_histogram


class EngineKnowledge(NamedTuple):
    """What a frontend knows of one engine, and how well."""

    report_age_seconds: float
    unacknowledged: int
    """Requests sent there that its newest report does not count yet."""
    prefix_blocks: int
    """Blocks of its prefix cache that are known."""


class FrontendMetrics:
    """The metrics that a frontend owns, with the labels of its cluster filled in.

    Tokens are counted before a client gets them, so that a killed frontend has told nobody of more than
    is counted. The gaps between them are kept in memory, and written down with the end of a request and
    with each `loop_state`.
    """

    def __init__(self, model_name: str, frontend_index: int) -> None:
        self._model_name = model_name
        self._frontend = str(frontend_index)
        self._prompt_tokens = counter("prompt_tokens")
        self._generation_tokens = counter("generation_tokens")
        self._finished = counter("request_success")
        self._time_to_first_token = histogram("time_to_first_token_seconds")
        self._inter_token_latency = buffered_histogram("inter_token_latency_seconds")
        self._told_tokens: dict[int | None, Counter] = {}
        """By engine: to look up the labels takes longer than to count."""
        self._gathered: Counts[int | None] | None = None
        """Told tokens by engine, within `counted_together`."""
        self._gaps: dict[int, BufferedHistogram] = {}
        self._unwritten_gaps: set[int] = set()
        """The engines for which there are some."""
        self._time_per_output_token = histogram("request_time_per_output_token_seconds")
        self._end_to_end = histogram("e2e_request_latency_seconds")
        self._prompt_length = histogram("request_prompt_tokens")
        self._generation_length = histogram("request_generation_tokens")
        self._migrations = counter("request_migrations")
        self._migration_gap = histogram("migration_gap_seconds")
        self._not_resumable = counter("requests_not_resumable")
        self._suspicions = counter("request_suspicions")
        self._convictions = counter("request_convictions")
        self._decisions = counter("routing_decisions")
        self._cost = histogram("routing_cost_seconds")
        self._hit_tokens = counter("routing_hit_tokens")
        self._prefix_blocks = gauge("prefix_index_blocks")
        self._resyncs = counter("prefix_index_resyncs")
        self._snapshot_age = gauge("snapshot_age_seconds")
        self._unacknowledged = gauge("unacknowledged_dispatches")
        self._known_ranks: set[int] = set()
        self._queue_depth = gauge("admission_queue_depth").labels(self._frontend)
        self._queue_tokens = gauge("admission_queue_tokens").labels(self._frontend)
        self._rejections = counter("admission_rejections")
        self._bad_frames = counter("wire_bad_frames").labels(f"frontend-{frontend_index}")
        self._loop_lag = gauge("event_loop_lag_seconds").labels(self._frontend)

    def first_token(self, rank: int, seconds: float, prompt_tokens: int) -> None:
        """A request got its first token so long after its arrival."""
        labels = (self._model_name, str(rank))
        self._time_to_first_token.labels(*labels).observe(seconds)
        self._prompt_tokens.labels(*labels).inc(prompt_tokens)

    def tokens(self, rank: int | None, count: int) -> None:
        """A client is told of so many more output tokens, which this engine made."""
        if self._gathered is None:
            self._count_tokens(rank, count)
        else:
            self._gathered[rank] += count

    @contextmanager
    def counted_together(self) -> Iterator[None]:
        """Write down once, at the end, how many tokens were told within: to write takes a lock and a file."""
        self._gathered = gathered = Counts[int | None]()
        try:
            yield
        finally:
            self._gathered = None
            for rank, count in gathered.items():
                self._count_tokens(rank, count)

    def _count_tokens(self, rank: int | None, count: int) -> None:
        told = self._told_tokens.get(rank)
        if told is None:
            told = self._generation_tokens.labels(self._model_name, _label(rank))
            self._told_tokens[rank] = told
        told.inc(count)

    def next_tokens(self, rank: int, seconds: float) -> None:
        """So much time lay between two outputs of one request."""
        gaps = self._gaps.get(rank)
        if gaps is None:
            gaps = self._inter_token_latency.labels(self._model_name, str(rank))
            self._gaps[rank] = gaps
        gaps.note(seconds)
        self._unwritten_gaps.add(rank)

    def ended(
        self,
        rank: int | None,
        reason: FinishReason,
        seconds: float,
        prompt_tokens: int,
        output_tokens: int,
        decode_seconds: float,
    ) -> None:
        """A request ended; `rank` is the engine that had it last."""
        labels = (self._model_name, _label(rank))
        self._finished.labels(*labels, reason.label).inc()
        self._end_to_end.labels(*labels).observe(seconds)
        self._prompt_length.labels(*labels).observe(prompt_tokens)
        self._generation_length.labels(*labels).observe(output_tokens)
        if output_tokens > 1:
            mean = decode_seconds / (output_tokens - 1)
            self._time_per_output_token.labels(*labels).observe(mean)
        self._write_gaps()

    def moved(self, cause: str) -> None:
        """A request has to go on in another engine."""
        self._migrations.labels(cause).inc()

    def resumed(self, gap_seconds: float) -> None:
        """A moved request got its next token so long after its last."""
        self._migration_gap.observe(gap_seconds)

    def not_resumable(self) -> None:
        """A request is too long to be kept for going on in another engine."""
        self._not_resumable.inc()

    def suspected(self) -> None:
        """A request is set apart, since an engine failed while it computed it."""
        self._suspicions.inc()

    def convicted(self) -> None:
        """A request has killed engines."""
        self._convictions.inc()

    def routed(self, rank: int, policy: str, cost_seconds: float, hit_tokens: int) -> None:
        """A request was sent to an engine, which is expected to hold so much of it."""
        self._decisions.labels(str(rank), policy).inc()
        self._cost.observe(cost_seconds)
        self._hit_tokens.labels(str(rank)).inc(hit_tokens)

    def resync_asked(self, rank: int) -> None:
        """An engine was asked for its whole prefix cache."""
        self._resyncs.labels(str(rank)).inc()

    def refused(self, reason: str) -> None:
        """A request was refused."""
        self._rejections.labels(reason).inc()

    def bad_frame(self) -> None:
        """A frame was no message."""
        self._bad_frames.inc()

    def engines_known(self, engines: Mapping[int, EngineKnowledge]) -> None:
        """Everything that is known of each engine, by rank; of all others nothing is."""
        for rank, knowledge in engines.items():
            labels = (self._frontend, str(rank))
            self._snapshot_age.labels(*labels).set(knowledge.report_age_seconds)
            self._unacknowledged.labels(*labels).set(knowledge.unacknowledged)
            self._prefix_blocks.labels(*labels).set(knowledge.prefix_blocks)
        for rank in self._known_ranks - engines.keys():
            for of_engines in (self._snapshot_age, self._unacknowledged, self._prefix_blocks):
                withdraw(of_engines.labels(self._frontend, str(rank)))
        self._known_ranks = set(engines)

    def loop_state(self, queued: int, queued_tokens: int, lag_seconds: float) -> None:
        """What waits here, and how late the event loop is. To be told several times a second."""
        self._queue_depth.set(queued)
        self._queue_tokens.set(queued_tokens)
        self._loop_lag.set(lag_seconds)
        self._write_gaps()

    def _write_gaps(self) -> None:
        for rank in self._unwritten_gaps:
            self._gaps[rank].flush()
        self._unwritten_gaps.clear()


def _label(rank: int | None) -> str:
    return "none" if rank is None else str(rank)
