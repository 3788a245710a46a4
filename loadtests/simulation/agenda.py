"""What is to happen when: the fake clock of a simulation."""

import heapq
from collections.abc import Callable
from itertools import count


class Agenda:
    """Actions by their times; those of equal time happen in the order in which they were entered."""

    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the start of the run."""
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._ties = count()

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Do this then; not before now."""
        heapq.heappush(self._entries, (max(time, self.now), next(self._ties), action))

    def run(self, is_done: Callable[[], bool]) -> None:
        """Let time pass until it is done, or nothing is left to happen."""
        while self._entries and not is_done():
            self.now, _, action = heapq.heappop(self._entries)
            action()
