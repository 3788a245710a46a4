"""Makes the reports of how busy an engine is."""

import time

from cluster.wire.messages import EnginePhase, LoadReport
from engine.arrivals import Acknowledged, Arrivals, Arrived
from engine.stats import EngineStats


class StepProgress:
    """When the engine last came forward: written by the busy loop, read by the output thread."""

    def __init__(self) -> None:
        self.at = time.monotonic()
        """When the last step ended, or work began after idleness."""
        self.predicted_seconds = 0.0
        """How long the step under way may take."""


class LoadReporter:
    """Reports what the newest step has left, and what has arrived since."""

    def __init__(self, rank: int, incarnation: int, progress: StepProgress) -> None:
        self._rank, self._incarnation = rank, incarnation
        self._progress = progress
        self._phase, self._phase_progress = EnginePhase.STARTING, 0.0
        self._stats: EngineStats | None = None
        self._acknowledged: list[Acknowledged] = []
        self._arrivals = Arrivals()
        self._report_seq = 0

    @property
    def is_busy(self) -> bool:
        """Whether the engine had work after its newest step."""
        return self._stats is not None and self._stats.is_busy

    def on_phase(self, phase: EnginePhase, progress: float) -> None:
        """The engine has come further in its start."""
        self._phase, self._phase_progress = phase, progress

    def on_arrival(self, arrived: Arrived) -> None:
        """A message waits for the end of the step under way."""
        self._arrivals.add(arrived)

    def on_step(self, stats: EngineStats, acknowledged: list[Acknowledged]) -> None:
        """A step has ended, or a change between two steps."""
        self._stats, self._acknowledged = stats, acknowledged
        self._arrivals.take_in(acknowledged)

    def on_frontend_gone(self, frontend_index: int, incarnation: int) -> None:
        """What a frontend has sent is nobody's."""
        self._arrivals.forget(frontend_index, incarnation)

    def report(self, now: float, events_seq: int) -> LoadReport:
        """How busy the engine is; `events_seq` is the number of its newest block events."""
        self._report_seq += 1
        stats = self._stats
        if stats is None:
            return LoadReport(
                self._rank, self._incarnation, self._report_seq, self._phase,
                progress=self._phase_progress,
            )  # fmt: skip
        speeds, arrived = stats.speeds, self._arrivals.counted()
        return LoadReport(
            self._rank,
            self._incarnation,
            self._report_seq,
            self._phase,
            progress=self._phase_progress,
            step=stats.step,
            seconds_since_step=now - self._progress.at,
            predicted_step_seconds=self._progress.predicted_seconds,
            waiting=stats.waiting + len(arrived),
            running=stats.running,
            waiting_prompt_tokens=stats.waiting_prompt_tokens
            + sum(arrival.context_tokens for arrival in arrived),
            running_tokens=stats.running_tokens,
            total_blocks=stats.total_blocks,
            used_blocks=stats.used_blocks,
            cached_blocks=stats.cached_blocks,
            prefill_tokens_per_second=speeds.prefill_tokens_per_second,
            decode_seconds_per_step=speeds.decode_seconds_per_step,
            decode_seconds_per_request=speeds.decode_seconds_per_request,
            decode_seconds_per_kv_token=speeds.decode_seconds_per_kv_token,
            slowdown=speeds.slowdown,
            acknowledged=acknowledged_with(self._acknowledged, arrived),
            events_seq=events_seq,
            unpassed_prompt_tokens=stats.unpassed_prompt_tokens
            + sum(a.context_tokens for a in arrived if a.tenant not in stats.crowding),
        )


def acknowledged_with(known: list[Acknowledged], arrived: list[Arrived]) -> list[Acknowledged]:
    """What a report names that counts these arrivals beside what the busy loop knows."""
    if not arrived:
        return known
    highest = {(index, incarnation): seq for index, incarnation, seq in known}
    for arrival in arrived:
        key = (arrival.frontend_index, arrival.frontend_incarnation)
        highest[key] = arrival.dispatch_seq
    return [(*key, seq) for key, seq in highest.items()]
