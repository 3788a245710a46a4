"""The steps that have begun and not ended: who is in them, and how long they may take."""

import time
from collections import deque
from typing import NamedTuple

from engine.core import EngineCore
from engine.load_reporter import StepProgress
from engine.scheduling.output import RunResult, SchedulerOutput, StepOutcome
from engine.scheduling.scheduler import OutputsByFrontend
from engine.step_recorder import StepRecorder


class _Step(NamedTuple):
    work: SchedulerOutput
    outcome: StepOutcome
    predicted_seconds: float


class StepsInFlight:
    """A queue of steps, of which the oldest is the one under way.

    Owned by the busy loop. An error in any of them leaves the record of all.
    """

    def __init__(self, recorder: StepRecorder, progress: StepProgress) -> None:
        self._recorder, self._progress = recorder, progress
        self._steps: deque[_Step] = deque()

    def __len__(self) -> int:
        return len(self._steps)

    def begin(self, core: EngineCore, work: SchedulerOutput) -> None:
        """Submit this step behind the others."""
        predicted_seconds = core.predict_seconds(work)
        if not self._steps:
            self._progress.predicted_seconds = predicted_seconds
        self._recorder.began(work)
        self._steps.append(_Step(work, core.submit(work), predicted_seconds))

    def wait(self) -> list[RunResult]:
        """The results of the oldest step."""
        return self._steps[0].outcome.result()

    def end(self, core: EngineCore, results: list[RunResult]) -> OutputsByFrontend:
        """Take over the results of the oldest step: the next one is under way."""
        outputs = core.finish_step(self._steps.popleft().work, results, time.monotonic())
        self._recorder.ended()
        self._progress.at = time.monotonic()
        if self._steps:
            self._progress.predicted_seconds = self._steps[0].predicted_seconds
        return outputs
