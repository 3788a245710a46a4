"""Faults on purpose, around any model runner. Imported only where `--inject-fault` names this engine."""

import ctypes
import logging
import os
import time
from collections.abc import Callable, Sequence

from cluster.fault_plan import Fault, FaultKind
from engine.proc import LoadedRunner
from engine.scheduling.output import RunResult, ScheduledRequest, SchedulerOutput, StepOutcome

_log = logging.getLogger("engine")


class InjectedFault(Exception):
    """A fault that `--inject-fault` asked for."""


def announce_faults(faults: Sequence[Fault]) -> None:
    """Warn of what will happen. Raises InjectedFault if the engine is not to start at all."""
    for fault in faults:
        _log.warning("this engine fails on purpose: --inject-fault %s", fault.spec)
    for fault in faults:
        if fault.kind is FaultKind.FAIL_START:
            raise InjectedFault(fault.spec)


class _FaultyOutcome:
    """A step that may fail when it is waited for: all steps before it have ended by then."""

    def __init__(self, outcome: StepOutcome, suffer: Callable[[], None]) -> None:
        self._outcome = outcome
        self._suffer = suffer

    def result(self) -> list[RunResult]:
        """See `StepOutcome`."""
        self._suffer()
        return self._outcome.result()


class FaultyRunner:
    """A model runner that fails where one of its faults says so, and else does what it did."""

    def __init__(self, runner: LoadedRunner, faults: Sequence[Fault]) -> None:
        self.num_blocks = runner.num_blocks
        self.max_model_len = runner.max_model_len
        self.vocab_size = runner.vocab_size
        self.model_fingerprint = runner.model_fingerprint
        self.overlaps_steps = runner.overlaps_steps
        self._runner = runner
        self._faults = list(faults)
        self._strikes_left = [fault.times for fault in faults]
        self._step = 0

    def submit(self, work: SchedulerOutput) -> StepOutcome:
        """Have the step computed, unless a fault strikes when its turn comes."""
        return _FaultyOutcome(self._runner.submit(work), lambda: self._suffer(work))

    def _suffer(self, work: SchedulerOutput) -> None:
        self._step += 1
        for index, fault in enumerate(self._faults):
            if self._strikes_left[index] and self._strikes(fault, work):
                self._strikes_left[index] -= 1
                _log.warning("a fault strikes in step %d: %s", self._step, fault.spec)
                _strike(fault)

    def _strikes(self, fault: Fault, work: SchedulerOutput) -> bool:
        if fault.step is not None and self._step < fault.step:
            return False
        if fault.prompt is None:
            return True
        return any(_is_met(fault, fault.prompt, run) for run in work.scheduled)


def _is_met(fault: Fault, pattern: tuple[int, ...], run: ScheduledRequest) -> bool:
    """Whether this run is the one that the fault waits for; the prompt is looked at last."""
    request = run.request
    if fault.output is None:
        if run.is_decode:
            return False
    elif not (run.samples and run.output_position == fault.output):
        return False
    length, token_ids = len(pattern), request.token_ids
    starts = range(request.num_prompt_tokens - length + 1)
    return any(
        token_ids[start] == pattern[0] and tuple(token_ids[start : start + length]) == pattern
        for start in starts
    )


def _strike(fault: Fault) -> None:
    match fault.kind:
        case FaultKind.RAISE:
            raise InjectedFault(fault.spec)
        case FaultKind.SEGFAULT:
            ctypes.string_at(0)
        case FaultKind.ABORT:
            os.abort()
        case FaultKind.HANG:
            while True:
                time.sleep(3600.0)
        case FaultKind.SLOW:
            time.sleep(fault.seconds)
        case FaultKind.OUT_OF_MEMORY:
            raise MemoryError(f"injected: {fault.spec}")
        case FaultKind.FAIL_START:
            pass  # `announce_faults` has dealt with it
