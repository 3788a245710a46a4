"""When a process that died may start again. Pure; takes `now` and its randomness."""

from collections import deque
from typing import NamedTuple

BACK_OFF_SECONDS: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
PARKED_SECONDS = 300.0


class Restart(NamedTuple):
    """The verdict after a death: wait so long, and whether that is given up for now."""

    delay_seconds: float
    parked: bool


class RestartPolicy:
    """Erlang's restart intensity for one process, then back-off, then a rest.

    `max_restarts` in any `window_seconds` are immediate. A process that dies more often waits 1 s,
    2 s, 4 s … 60 s (each a quarter more or less, so that many do not start in step), then is parked
    and tried every five minutes. A life as long as the window forgives everything.
    """

    def __init__(self, max_restarts: int, window_seconds: float) -> None:
        self._max_restarts = max_restarts
        self._window_seconds = window_seconds
        self._immediate_at: deque[float] = deque()
        self._num_delays = 0
        self._started_at: float | None = None

    def started(self, now: float) -> None:
        """The process was spawned."""
        self._started_at = now

    def forgive(self) -> None:
        """Forget all deaths: somebody has decided to try again."""
        self._num_delays = 0
        self._immediate_at.clear()

    def died(self, now: float, jitter: float) -> Restart:
        """What to do about the death of the process at `now`; `jitter` is in [0, 1)."""
        if self._started_at is not None and now - self._started_at >= self._window_seconds:
            self.forgive()
        while self._immediate_at and now - self._immediate_at[0] >= self._window_seconds:
            self._immediate_at.popleft()
        if self._num_delays == 0 and len(self._immediate_at) < self._max_restarts:
            self._immediate_at.append(now)
            return Restart(0.0, parked=False)
        if self._num_delays == len(BACK_OFF_SECONDS):
            return Restart(PARKED_SECONDS, parked=True)
        delay = BACK_OFF_SECONDS[self._num_delays]
        self._num_delays += 1
        return Restart(delay * (0.75 + 0.5 * jitter), parked=False)
