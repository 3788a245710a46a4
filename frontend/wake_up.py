"""What one task waits for again and again, with a time limit that costs next to nothing."""

import asyncio
import math


class WakeUp:
    """Called by anybody on the event loop, awaited by one task.

    An `asyncio.Event` under `asyncio.timeout` does the same, and starts and cancels a timer for every
    wait: of a token's way through a frontend that was a noticeable part. Here one timer serves all
    waits: where it comes too early for the one that is on, it is set anew for the rest.
    """

    def __init__(self) -> None:
        self._was_called = False
        self._loop: asyncio.AbstractEventLoop
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = math.inf
        """Of the wait that is on, in the loop's time."""
        self._limit_seconds = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def call(self) -> None:
        """Let the task go on, now or when it waits next."""
        self._was_called = True
        self._end_wait()

    def postpone(self) -> None:
        """Let the wait that is on last its limit from now."""
        if self._deadline < math.inf:
            self._deadline = self._loop.time() + self._limit_seconds

    def close(self) -> None:
        """Drop the timer. Who waits after that gets a new one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, math.inf

    async def wait(self, limit_seconds: float | None = None) -> bool:
        """Return True once it was called since the last wait, and False if it was not in so long."""
        if not self._was_called:
            await self._sleep(limit_seconds)
        was_called, self._was_called = self._was_called, False
        return was_called

    async def _sleep(self, limit_seconds: float | None) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        self._deadline = math.inf
        if limit_seconds is not None:
            self._limit_seconds = limit_seconds
            self._deadline = loop.time() + limit_seconds
            if self._deadline < self._timer_at:
                self._set_timer(loop)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        self._timer_at = self._deadline
        self._timer = loop.call_at(self._deadline, self._on_timer, loop)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._timer_at = None, math.inf
        if self._waiter is None or self._deadline == math.inf:
            return
        if loop.time() >= self._deadline:
            self._end_wait()
        else:
            self._set_timer(loop)

    def _end_wait(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
