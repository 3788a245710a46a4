"""Background load: mixed requests, again and again, until the block around it is left."""

import asyncio
import itertools
import random
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from loadtests.drills.bodies import Body
from loadtests.drills.drill import DrillError
from loadtests.drills.history import Exchange
from loadtests.drills.sender import Sender
from loadtests.drills.waiting import until

DRAIN_SECONDS = 180.0
PAUSE_AFTER_FAILURE_SECONDS = 0.1
"""A refused client that comes back at once would be an attack."""


class Load:
    """Requests under way, in turn over the bodies: so many at once, or so many a second."""

    def __init__(
        self,
        sender: Sender,
        bodies: Sequence[Body],
        concurrency: int = 16,
        rate_per_second: float | None = None,
    ) -> None:
        self.exchanges: list[Exchange] = []
        self._sender = sender
        self._bodies = itertools.cycle(bodies)
        self._concurrency = concurrency
        self._rate_per_second = rate_per_second
        self._is_stopping = False
        self._live: dict[int, Exchange] = {}
        self._ended_tokens = 0
        self._error: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # ── looking ──

    @property
    def num_tokens(self) -> int:
        """Tokens that have come so far."""
        return self._ended_tokens + sum(exchange.num_tokens for exchange in self._live.values())

    @property
    def in_flight(self) -> list[Exchange]:
        """Requests that have not ended."""
        return list(self._live.values())

    async def until_tokens(self, num_tokens: int, seconds: float = 60.0) -> None:
        """Return once so many more tokens have come. Raises DrillError."""
        wanted = self.num_tokens + num_tokens
        await until(lambda: self.num_tokens >= wanted, seconds, f"{num_tokens} more tokens")

    async def until_streaming(self, count: int | None = None, seconds: float = 60.0) -> None:
        """Return once so many streams at a time are past their first token. Raises DrillError."""
        wanted = count or max(1, self._concurrency * 3 // 4)

        def are_streaming() -> bool:
            return sum(bool(exchange.arrivals) for exchange in self.in_flight) >= wanted

        await until(are_streaming, seconds, f"{wanted} streams under way")

    # ── life ──

    def start(self) -> None:
        """Begin to send."""
        if self._rate_per_second is None:
            for _ in range(self._concurrency):
                self._spawn(self._closed_loop())
        else:
            self._spawn(self._open_loop(self._rate_per_second))

    def stop(self) -> None:
        """Send nothing new."""
        self._is_stopping = True

    async def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Stop, and wait for what is in flight. Raises DrillError if it does not end."""
        self.stop()
        deadline = time.monotonic() + seconds
        while self._tasks:
            left = deadline - time.monotonic()
            if left <= 0:
                num_left = len(self.in_flight)
                await self.cancel()
                raise DrillError(f"{num_left} requests have not ended within {seconds:g} s")
            await asyncio.wait(self._tasks, timeout=min(left, 1.0))
        if self._error is not None:
            raise self._error

    async def cancel(self) -> None:
        """Drop everything."""
        self.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._error = self._error or task.exception()

    async def _closed_loop(self) -> None:
        while not self._is_stopping:
            exchange = await self._send(next(self._bodies))
            if exchange.failure:
                await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)

    async def _open_loop(self, rate_per_second: float) -> None:
        source = random.Random(rate_per_second)
        due_at = time.monotonic()
        while not self._is_stopping:
            due_at += source.expovariate(rate_per_second)
            await asyncio.sleep(max(0.0, due_at - time.monotonic()))
            self._spawn(self._send_and_forget(next(self._bodies)))

    async def _send_and_forget(self, body: Body) -> None:
        await self._send(body)

    async def _send(self, body: Body) -> Exchange:
        exchange = self._sender.new_exchange(body.kind, body.path, body.fields)
        self.exchanges.append(exchange)
        self._live[id(exchange)] = exchange
        try:
            return await self._sender.send(body.kind, body.path, body.fields, exchange)
        finally:
            del self._live[id(exchange)]
            self._ended_tokens += exchange.num_tokens
