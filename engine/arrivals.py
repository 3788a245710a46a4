"""What has arrived while a step is under way: reports count it before the busy loop has seen it."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

Acknowledged = tuple[int, int, int]
"""A frontend's index, its incarnation, and the highest of its `dispatch_seq` that is meant."""


class Arrived(NamedTuple):
    """A request is in the inbox, or an abort."""

    frontend_index: int
    frontend_incarnation: int
    dispatch_seq: int
    context_tokens: int
    """0 for an abort."""
    tenant: str = ""


class Arrivals:
    """What has arrived of each frontend since the busy loop last took something in.

    An abort that waits in the inbox hides what came after it: what it will take away only the busy
    loop can tell, and a report that names a `dispatch_seq` has counted everything up to it.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int], deque[Arrived]] = {}

    def add(self, arrived: Arrived) -> None:
        """Note an arrival; to come before the step that takes it in."""
        key = (arrived.frontend_index, arrived.frontend_incarnation)
        self._waiting.setdefault(key, deque()).append(arrived)

    def take_in(self, acknowledged: Iterable[Acknowledged]) -> None:
        """Forget what the busy loop knows now."""
        for index, incarnation, seq in acknowledged:
            waiting = self._waiting.get((index, incarnation))
            while waiting and waiting[0].dispatch_seq <= seq:
                waiting.popleft()
            if not waiting:
                self._waiting.pop((index, incarnation), None)

    def forget(self, frontend_index: int, incarnation: int) -> None:
        """Forget what is of a frontend that is gone."""
        self._waiting.pop((frontend_index, incarnation), None)

    def counted(self) -> list[Arrived]:
        """The requests that a report can count: of each frontend up to its first abort, in order."""
        counted = []
        for waiting in self._waiting.values():
            for arrived in waiting:
                if not arrived.context_tokens:
                    break
                counted.append(arrived)
        return counted
