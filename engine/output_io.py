"""The engine's output thread: step outputs to frontends, load reports to the coordinator, metrics."""

import logging
import queue
import time
from collections.abc import Callable
from typing import NamedTuple

from cluster.errors import WireError
from cluster.wire.codec import Encoder, Frame
from cluster.wire.endpoints import Endpoints
from cluster.wire.messages import (
    BlockEvents,
    EngineCoreOutputs,
    EngineGoodbye,
    EnginePhase,
    Message,
    UtilityResult,
)
from cluster.wire.sockets import (
    LAST_WORDS_LINGER_MS,
    Context,
    Socket,
    close_watched,
    connect_outputs,
    connect_reports,
    receive_all,
    try_send,
    watch_disconnects,
)
from engine.arrivals import Acknowledged, Arrived
from engine.block_event_batch import BlockEventBatch
from engine.input_io import FrontendGone, FrontendJoined, Stop
from engine.io_thread import IoThread, ThreadFailed
from engine.load_reporter import LoadReporter, StepProgress
from engine.metrics import EngineMetrics
from engine.news_timer import NewsTimer
from engine.scheduling.scheduler import OutputsByFrontend
from engine.stats import EngineStats
from engine.throughput_log import ThroughputLog

BUSY_REPORT_SECONDS = 0.05
IDLE_REPORT_SECONDS = 0.5


class PhaseChanged(NamedTuple):
    """The engine has come further in its start, or is on its way out."""

    phase: EnginePhase
    progress: float = 0.0


class StepDone(NamedTuple):
    """What a step, or a change between two steps, has brought about."""

    outputs: OutputsByFrontend
    stats: EngineStats
    acknowledged: list[Acknowledged]
    stored_blocks: list[bytes]
    removed_blocks: list[bytes]


class CachedBlocks(NamedTuple):
    """The whole prefix cache, as it is after the `StepDone` before this: somebody has missed some."""

    hashes: set[bytes]


class UtilityDone(NamedTuple):
    """The answer to a utility call of one frontend."""

    frontend_index: int
    result: UtilityResult


OutputItem = (
    PhaseChanged
    | Arrived
    | StepDone
    | CachedBlocks
    | UtilityDone
    | FrontendJoined
    | FrontendGone
    | EngineGoodbye
    | Stop
)


class OutputLink(NamedTuple):
    """The way of outputs to one incarnation of a frontend."""

    incarnation: int
    push: Socket
    monitor: Socket
    """Tells when the connection breaks."""


class OutputThread(IoThread):
    """Owns every socket on which the engine speaks of itself.

    Runs from before the model is loaded until after the last word, so that silence always means
    that the process is stopped. A frontend whose queue is full is dropped, never waited for.
    """

    def __init__(
        self,
        context: Context,
        endpoints: Endpoints,
        rank: int,
        incarnation: int,
        metrics: EngineMetrics,
        progress: StepProgress,
        num_engines: int,
        on_failure: Callable[[ThreadFailed], None],
    ) -> None:
        super().__init__("output-io", on_failure)
        self.outbox: queue.SimpleQueue[OutputItem] = queue.SimpleQueue()
        self.on_frontend_stuck: Callable[[FrontendGone], None] = lambda gone: None
        self._context = context
        self._endpoints = endpoints
        self._rank, self._incarnation = rank, incarnation
        self._metrics = metrics
        self._encoder = Encoder()
        self._frontends: dict[int, OutputLink] = {}
        self._reporter = LoadReporter(rank, incarnation, progress)
        self._news = NewsTimer(num_engines)
        self._block_events = BlockEventBatch()
        self._events_seq = 0
        self._reported_at = 0.0
        self._is_changed = True
        self._throughput = ThroughputLog()

    def serve(self) -> None:
        """Send what is queued, and a report whenever one is due, until `Stop`."""
        self._reports = connect_reports(self._context, self._endpoints.reports)
        try:
            while not isinstance(item := self._next_item(), Stop):
                if item is not None:
                    self._handle(item)
                now = time.monotonic()
                if now >= self._news.due_at:
                    self._tell_all(now)
                if now >= self._report_due_at:
                    self._send_report()
                    self._drop_broken_links()
        finally:
            for link in self._frontends.values():
                close_watched(link.push, link.monitor, LAST_WORDS_LINGER_MS)
            self._reports.close(linger=LAST_WORDS_LINGER_MS)

    def _next_item(self) -> OutputItem | None:
        """What is next in the outbox; None if a report is due before there is anything."""
        due_at = min(self._report_due_at, self._news.due_at)
        try:
            return self.outbox.get(timeout=max(0.0, due_at - time.monotonic()))
        except queue.Empty:
            return None

    def _handle(self, item: OutputItem) -> None:
        match item:
            case StepDone():
                now, self._is_changed = time.monotonic(), True
                self._reporter.on_step(item.stats, item.acknowledged)
                self._news.on_step(now)
                for index, outputs in item.outputs.items():
                    load = self._reporter.report(now, self._events_seq)
                    message = EngineCoreOutputs(self._rank, self._incarnation, outputs, load)
                    self._send(index, message)
                self._block_events.add(item.stored_blocks, item.removed_blocks)
                if not item.stats.is_busy:
                    self._publish_block_events()
                self._metrics.observe(item.stats)
                self._throughput.observe(item.stats)
            case Arrived():
                self._reporter.on_arrival(item)
                self._news.on_arrival(time.monotonic())
            case CachedBlocks():
                self._block_events.start_over(item.hashes)
                self._is_changed = True
            case PhaseChanged(phase, progress):
                self._reporter.on_phase(phase, progress)
                self._send_report()
            case UtilityDone(index, result):
                self._send(index, result)
            case FrontendJoined(index, incarnation, address):
                self._leave(index)
                try:
                    push = connect_outputs(self._context, address)
                except WireError as error:
                    logging.getLogger("engine").warning("frontend %d: %s", index, error)
                    return
                self._frontends[index] = OutputLink(incarnation, push, watch_disconnects(push))
            case FrontendGone(index, incarnation):
                self._reporter.on_frontend_gone(index, incarnation)
                if index in self._frontends and self._frontends[index].incarnation == incarnation:
                    self._leave(index)
            case EngineGoodbye():
                for index in list(self._frontends):
                    self._send(index, item)
                try_send(self._reports, self._encoder.encode(item))
            case Stop():
                pass

    def _leave(self, index: int) -> None:
        known = self._frontends.pop(index, None)
        if known is not None:
            close_watched(known.push, known.monitor, linger_ms=0)

    def _send(self, index: int, message: Message) -> None:
        if index not in self._frontends:
            return  # it is gone, and the busy loop is about to hear of it
        self._send_frames(index, self._encoder.encode(message))

    def _send_frames(self, index: int, frames: list[Frame]) -> None:
        link = self._frontends[index]
        if not try_send(link.push, frames):
            self._give_up(index, link)

    def _drop_broken_links(self) -> None:
        """Where a connection broke, outputs may be lost: the frontend is to send its requests again."""
        for index, link in list(self._frontends.items()):
            if receive_all(link.monitor):
                self._give_up(index, link)

    def _give_up(self, index: int, link: OutputLink) -> None:
        self._leave(index)
        self.on_frontend_stuck(FrontendGone(index, link.incarnation))

    # ── reports ──

    @property
    def _report_due_at(self) -> float:
        is_busy = self._reporter.is_busy or self._is_changed
        return self._reported_at + (BUSY_REPORT_SECONDS if is_busy else IDLE_REPORT_SECONDS)

    def _tell_all(self, now: float) -> None:
        """Tell each frontend what the others have sent here; a single one knows."""
        self._news.told(now)
        if len(self._frontends) < 2:
            return
        load = self._reporter.report(now, self._events_seq)
        news = self._encoder.encode(EngineCoreOutputs(self._rank, self._incarnation, [], load))
        for index in list(self._frontends):
            self._send_frames(index, news)

    def _send_report(self) -> None:
        self._reported_at = time.monotonic()
        self._is_changed = False
        self._publish_block_events()
        try_send(
            self._reports,
            self._encoder.encode(self._reporter.report(self._reported_at, self._events_seq)),
        )

    def _publish_block_events(self) -> None:
        """Tell what has changed. If that gets lost, its number is missing, and frontends ask."""
        for changes in self._block_events.take():
            self._events_seq += 1
            events = BlockEvents(self._rank, self._incarnation, self._events_seq, *changes)
            try_send(self._reports, self._encoder.encode(events))
