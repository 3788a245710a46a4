"""Waiting for something to become true of the cluster, without asking all the time."""

import asyncio
from collections.abc import Callable


class Changes:
    """Wakes whoever waits whenever something may have changed."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Something has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_until(self, is_so: Callable[[], bool], timeout_seconds: float) -> bool:
        """Wait until this is so; whether that came in time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while not is_so():
                    await self._changed.wait()
        except TimeoutError:
            return is_so()
        return True
