"""Faults on purpose, around any model runner. Imported only where `--inject-fault` names this engine."""

import ctypes
import logging
import os
import time
from collections.abc import Sequence

from cluster.fault_plan import Fault, FaultKind
from engine.proc import LoadedRunner
from engine.scheduling.output import RunResult, ScheduledRequest, SchedulerOutput

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


class FaultyRunner:
    """A model runner that fails where one of its faults says so, and else does what it did."""

    def __init__(self, runner: LoadedRunner, faults: Sequence[Fault]) -> None:
        self.num_blocks = runner.num_blocks
        self.max_model_len = runner.max_model_len
        self.vocab_size = runner.vocab_size
        self.model_fingerprint = runner.model_fingerprint
        self._runner = runner
        self._faults = list(faults)
        self._strikes_left = [fault.times for fault in faults]
        self._step = 0

    def execute(self, work: SchedulerOutput) -> list[RunResult]:
        """Compute the step, unless a fault strikes."""
        self._step += 1
        for index, fault in enumerate(self._faults):
            if self._strikes_left[index] and self._strikes(fault, work):
                self._strikes_left[index] -= 1
                _log.warning("a fault strikes in step %d: %s", self._step, fault.spec)
                _strike(fault)
        return self._runner.execute(work)

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
        if request.is_decoding:
            return False
    elif not (run.samples and request.num_output_tokens == fault.output):
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
