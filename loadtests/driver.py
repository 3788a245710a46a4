"""Sends the requests of a run: so many at once, or each at its time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from loadtests.record import RequestRecord
from loadtests.workload import Ask

Complete = Callable[[Ask, float], Awaitable[RequestRecord]]
"""Sends a request that is due at a time and gives its record; does not raise."""


class Progress:
    """How far a run is; the driver counts, others read."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.in_flight = 0
        self.records: list[RequestRecord] = []


class Driver:
    """Runs requests against a server and collects their records in `progress`."""

    def __init__(self, complete: Complete, asks: Sequence[Ask]) -> None:
        self._complete = complete
        self._asks = asks
        self.progress = Progress(len(asks))

    async def closed_loop(self, concurrency: int) -> None:
        """Keep `concurrency` requests in flight until all are answered."""
        asks = iter(self._asks)

        async def client() -> None:
            for ask in asks:
                await self._send(ask, time.monotonic())

        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(self._asks))):
                group.create_task(client())

    async def open_loop(self, offsets_seconds: Sequence[float]) -> None:
        """Send each request at its offset from now, however many are in flight."""
        start = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for ask, offset in zip(self._asks, offsets_seconds, strict=True):
                await asyncio.sleep(start + offset - time.monotonic())
                group.create_task(self._send(ask, start + offset))

    async def _send(self, ask: Ask, due_at: float) -> None:
        self.progress.in_flight += 1
        try:
            self.progress.records.append(await self._complete(ask, due_at))
        finally:
            self.progress.in_flight -= 1
