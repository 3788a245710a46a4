"""EngineCoreProc: the shell around `EngineCore`, with its sockets, threads, clock and signals."""

import contextlib
import logging
import queue
import signal
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from cluster.config import ClusterConfig
from cluster.wire.block_hash import HASH_SEED
from cluster.wire.endpoints import Endpoints
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    AbortRequests,
    AddRequest,
    EngineGoodbye,
    EngineHello,
    EnginePhase,
    FlightRecord,
    Utility,
    UtilityResult,
)
from cluster.wire.sockets import Context, new_context
from engine.core import EngineCore
from engine.input_io import FrontendGone, FrontendJoined, InputItem, InputThread, Stop
from engine.io_thread import ThreadFailed
from engine.load_reporter import StepProgress
from engine.metrics import EngineMetrics
from engine.output_io import (
    CachedBlocks,
    OutputThread,
    PhaseChanged,
    StepDone,
    UtilityDone,
)
from engine.scheduling.output import MAX_STEPS_IN_FLIGHT, ModelRunner
from engine.scheduling.scheduler import OutputsByFrontend
from engine.step_recorder import StepRecorder
from engine.steps_in_flight import StepsInFlight

SIGNAL_LOOK_SECONDS = 0.5
BLOCKS_PUBLISHED_SECONDS = 1.0
"""The whole cache is told at most this often: it goes to all frontends, whoever asks."""


class LoadedRunner(ModelRunner, Protocol):
    """A model runner that is ready, and what the cluster must know of it."""

    num_blocks: int
    max_model_len: int
    vocab_size: int
    model_fingerprint: str
    overlaps_steps: bool
    """Whether it gains by a step that is submitted while another is in flight."""


RunnerFactory = Callable[[Callable[[EnginePhase, float], None]], LoadedRunner]
"""Loads a model, reporting phase and progress."""


class EngineCoreProc:
    """One engine process: input thread, busy loop on the main thread, output thread.

    The busy loop takes what has arrived, schedules, submits, and queues what came of it; it waits for
    nothing but the device, and for work when there is none. Where steps may overlap, it submits each
    one before it waits for the one before: the device is never without work meanwhile. An exception in
    it or in another thread ends this engine and no other: its last words name the cause and the
    requests of the steps in flight.
    """

    def __init__(
        self, config: ClusterConfig, rank: int, incarnation: int, context: Context
    ) -> None:
        self._config = config
        self._rank, self._incarnation = rank, incarnation
        self._context = context
        self._endpoints = Endpoints(config.run_directory)
        self._logger = logging.getLogger("engine")
        self._inbox: queue.SimpleQueue[InputItem] = queue.SimpleQueue()
        self._fast_lane: queue.SimpleQueue[AbortRequests] = queue.SimpleQueue()
        self._acknowledged: dict[int, tuple[int, int]] = {}
        """Per frontend index: its incarnation and the highest dispatch_seq taken in."""
        self._progress = StepProgress()
        self._metrics = EngineMetrics(config.model.served_model_name or "", rank)
        self._output = OutputThread(
            context, self._endpoints, rank, incarnation, self._metrics, self._progress,
            config.engine.data_parallel_size, self._inbox.put,
        )  # fmt: skip
        self._input: InputThread | None = None
        self._recorder = StepRecorder(config, rank, incarnation)
        self._steps = StepsInFlight(self._recorder, self._progress)
        self._max_in_flight = 1
        self._blocks_published_at = float("-inf")
        self._is_stopping = False

    def stop(self) -> None:
        """End `run` after the steps in flight. Safe in a signal handler."""
        self._inbox.put(Stop())

    def run(self, load: RunnerFactory) -> int:
        """Load the model and serve until `stop`; the process's exit code."""
        self._output.start()
        try:
            core = self._start(load)
        except Exception as error:
            self._logger.exception("the engine could not start")
            self._say_goodbye(drained=False, reason=f"could not start: {error}")
            return 1
        try:
            while not self._is_stopping:
                self._turn(core)
            while self._steps:
                self._end_step(core)
        except Exception as error:
            self._logger.exception("the engine ends")
            flight = self._recorder.failed(error)
            self._say_goodbye(
                drained=False, reason=f"{type(error).__name__}: {error}", flight=flight
            )
            return 1
        finally:
            self._recorder.close()
        self._say_goodbye(drained=True, reason="asked to stop")
        return 0

    def _start(self, load: RunnerFactory) -> EngineCore:
        runner = load(lambda phase, share: self._output.outbox.put(PhaseChanged(phase, share)))
        self._max_in_flight = MAX_STEPS_IN_FLIGHT if runner.overlaps_steps else 1
        core = EngineCore(
            self._config.engine, runner.num_blocks, runner.max_model_len, runner, runner.vocab_size
        )
        hello = EngineHello(
            PROTOCOL_VERSION,
            self._rank,
            self._incarnation,
            runner.model_fingerprint,
            runner.max_model_len,
            self._config.engine.block_size,
            runner.num_blocks,
            self._config.engine.max_num_seqs,
            HASH_SEED,
        )
        self._input = InputThread(
            self._context, self._endpoints, hello, self._inbox, self._fast_lane,
            self._output.outbox.put, self._metrics.bad_frame,
        )  # fmt: skip
        self._output.on_frontend_stuck = self._input.reconnect
        self._publish(core, {})
        self._output.outbox.put(PhaseChanged(EnginePhase.READY, 1.0))
        self._input.start()
        return core

    # ── the busy loop ──

    def _turn(self, core: EngineCore) -> None:
        """Take in what has arrived, submit a step, and end the oldest unless another may go before."""
        was_told = self._take_input(core)
        if self._is_stopping or not core.has_work:
            return
        work = core.begin_step(time.monotonic())
        if was_told:  # what was hidden behind an abort is to show before the step is over
            self._publish(core, {})
        if work.scheduled:
            self._steps.begin(core, work)
        if not work.scheduled or len(self._steps) == self._max_in_flight:
            self._end_step(core)

    def _end_step(self, core: EngineCore) -> None:
        """Wait for the oldest step in flight, and tell what came of it."""
        results = self._steps.wait()
        self._take_fast_lane(core)
        self._publish(core, self._steps.end(core, results))

    def _take_fast_lane(self, core: EngineCore) -> None:
        """Abort what clients gave up during the forward pass, unless the inbox has said so already.

        A stale abort must not hit a later attempt of its request.
        """
        while not self._fast_lane.empty():
            abort = self._fast_lane.get()
            incarnation, highest = self._acknowledged.get(abort.frontend_index, (0, 0))
            if incarnation != abort.frontend_incarnation or abort.dispatch_seq > highest:
                core.abort_requests(abort.request_ids)

    def _take_input(self, core: EngineCore) -> bool:
        """Empty the inbox; wait for it to fill while there is nothing else to do.

        Whether anything was in it that changes the load, and is not published.
        """
        was_idle = not core.has_work
        if was_idle and self._inbox.empty():
            if self._config.engine.check_invariants:
                core.check_invariants()
            item = self._wait_for_input()
            self._progress.at = time.monotonic()
            self._take(core, item)
        was_told = False
        while not self._inbox.empty():
            was_told = True
            self._take(core, self._inbox.get())
        # Into idleness no step tells of the change; out of it, one that hangs must show as work.
        if was_idle or not core.has_work:
            self._publish(core, {})
            return False
        return was_told

    def _wait_for_input(self) -> InputItem:
        """The next item of the inbox, however long that takes.

        Looks up now and then: a signal that the kernel gives to another thread does not end a wait
        in this one, and the handler that puts `Stop` into the inbox runs only here.
        """
        while True:
            with contextlib.suppress(queue.Empty):
                return self._inbox.get(timeout=SIGNAL_LOOK_SECONDS)

    def _take(self, core: EngineCore, item: InputItem) -> None:
        match item:
            case AddRequest():
                self._acknowledge(item)
                if item.attempt:  # an older attempt whose abort was lost is not to stand in its way
                    core.abort_requests([item.request_id])
                refusal = core.add_request(item, time.monotonic())
                if refusal is not None:
                    self._publish(core, {item.frontend_index: [refusal]})
            case AbortRequests():
                self._acknowledge(item)
                core.abort_requests(item.request_ids)
            case FrontendJoined():
                self._output.outbox.put(item)
            case FrontendGone():
                self._acknowledged.pop(item.frontend_index, None)
                core.abort_frontend(item.frontend_index)
                self._output.outbox.put(item)
            case Utility():
                result = self._call(core, item)
                if item.call_id:  # 0 wants no answer
                    self._output.outbox.put(UtilityDone(item.frontend_index, result))
            case ThreadFailed():
                raise item.error
            case Stop():
                self._is_stopping = True

    def _acknowledge(self, message: AddRequest | AbortRequests) -> None:
        incarnation, highest = self._acknowledged.get(message.frontend_index, (0, 0))
        if incarnation != message.frontend_incarnation:
            highest = 0
        self._acknowledged[message.frontend_index] = (
            message.frontend_incarnation,
            max(highest, message.dispatch_seq),
        )

    def _publish(self, core: EngineCore, outputs: OutputsByFrontend) -> None:
        stored, removed = core.take_block_events()
        acknowledged = [(index, *known) for index, known in self._acknowledged.items()]
        self._output.outbox.put(StepDone(outputs, core.stats(), acknowledged, stored, removed))

    def _publish_blocks(self, core: EngineCore) -> bool:
        """Tell all frontends everything that is cached; False if that was done a moment ago."""
        now = time.monotonic()
        if now - self._blocks_published_at < BLOCKS_PUBLISHED_SECONDS:
            return False
        self._blocks_published_at = now
        self._publish(core, {})  # changes up to now are to come before the whole
        self._output.outbox.put(CachedBlocks(core.cached_blocks()))
        return True

    def _call(self, core: EngineCore, call: Utility) -> UtilityResult:
        result: object
        match call.method:
            case "ping":
                result = True
            case "reset_prefix_cache":
                result = core.reset_prefix_cache()
            case "publish_blocks":
                result = self._publish_blocks(core)
            case "check_invariants":
                core.check_invariants()
                result = True
            case _:
                return UtilityResult(
                    self._rank, self._incarnation, call.call_id, error=f"no method {call.method!r}"
                )
        return UtilityResult(
            self._rank, self._incarnation, call.call_id, msgspec.json.encode(result).decode()
        )

    # ── the end ──

    def _say_goodbye(self, drained: bool, reason: str, flight: FlightRecord | None = None) -> None:
        self._output.outbox.put(
            EngineGoodbye(self._rank, self._incarnation, drained, reason, flight)
        )
        self._output.outbox.put(Stop())
        self._output.join()
        if self._input is not None and self._input.is_alive():
            self._input.stop()
            self._input.join()


def run_engine(config: ClusterConfig, rank: int, incarnation: int, load: RunnerFactory) -> int:
    """Run one engine in this process until SIGTERM; the process's exit code."""
    context = new_context()
    proc = EngineCoreProc(config, rank, incarnation, context)
    signal.signal(signal.SIGTERM, lambda *_: proc.stop())
    exit_code = proc.run(load)
    context.term()
    return exit_code
