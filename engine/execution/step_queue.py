"""How steps come to be computed one after another while the caller does something else."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from engine.scheduling.output import RunResult, StepOutcome

Finish = Callable[[], list[RunResult]]


class LaunchedStep:
    """A step that the device has been given, all of it; `finish` is what is left to the host."""

    def __init__(self, finish: Finish, device: torch.device) -> None:
        self._finish = finish
        self._end: torch.cuda.Event | None = None
        if device.type == "cuda":
            self._end = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            self._end.record()

    def result(self) -> list[RunResult]:
        """See `StepOutcome`."""
        if self._end is not None:
            self._end.synchronize()
        return self._finish()


Launch = Callable[[], LaunchedStep]


class DeviceQueue:
    """Launches steps at once: a device has a queue of its own. A CPU is done with them by then."""

    def submit(self, launch: Launch) -> StepOutcome:
        """Launch a step behind those before."""
        return launch()


class ThreadQueue:
    """Computes steps in a thread, where the host is the device."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "steps")
        self._thread.submit(int)  # it is there before the first step

    def submit(self, launch: Launch) -> StepOutcome:
        """Launch a step when those before have ended."""
        return self._thread.submit(lambda: launch().result())
