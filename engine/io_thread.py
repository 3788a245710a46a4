"""A thread at the engine's edge: when it fails, the engine ends."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple


class ThreadFailed(NamedTuple):
    """A thread has ended by an error; an engine that went on would look healthy and serve nobody."""

    error: Exception


class IoThread(threading.Thread, ABC):
    """Runs `serve`, and says so where that raises. A daemon, so that it never holds up an exit."""

    def __init__(self, name: str, on_failure: Callable[[ThreadFailed], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._on_failure = on_failure

    @abstractmethod
    def serve(self) -> None:
        """The work of the thread, to its end. Closes what it has opened, however it ends."""

    def run(self) -> None:
        """What `start` runs."""
        try:
            self.serve()
        except Exception as error:  # noqa: BLE001 - it is raised again in the busy loop
            self._on_failure(ThreadFailed(error))
