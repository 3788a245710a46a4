"""When an engine tells all frontends how busy it is, beside what it tells with outputs."""

ARRIVAL_SECONDS = 0.001
"""Between two reports because of arrivals, at least. In four milliseconds as many requests may come
to eight engines as make a choice by old numbers a tenth worse."""
STEP_SECONDS_PER_ENGINE = 0.002
"""Between two reports because of steps, for each engine that there is: all engines together send each
frontend no more than 500 a second."""


class NewsTimer:
    """Plans the next such report. Times are seconds on one clock."""

    def __init__(self, num_engines: int) -> None:
        self._step_seconds = STEP_SECONDS_PER_ENGINE * num_engines
        self._told_at = float("-inf")
        self.due_at = float("inf")
        """When to tell; infinite while there is nothing new."""

    def on_arrival(self, now: float) -> None:
        """Something has arrived that other frontends cannot know of."""
        self._plan(max(now, self._told_at + ARRIVAL_SECONDS))

    def on_step(self, now: float) -> None:
        """A step has changed what is to be told."""
        self._plan(max(now, self._told_at + self._step_seconds))

    def told(self, now: float) -> None:
        """All frontends know how it is now."""
        self._told_at, self.due_at = now, float("inf")

    def _plan(self, due_at: float) -> None:
        self.due_at = min(self.due_at, due_at)
