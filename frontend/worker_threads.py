"""A few threads for work that would hold up the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from cluster.errors import Overloaded
from frontend.round_robin import RoundRobin
from frontend.tenant_shares import leaves_too_little

MAX_WAITING = 10_000
"""Jobs that wait for a thread; each holds the body of a request."""
RETRY_AFTER_SECONDS = 1

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class WorkerThreads:
    """Runs functions away from the event loop, at most `num_threads` at once.

    Tenants that wait get the threads in turn: a flood of one keeps another waiting for the jobs that
    run, and for one of each tenant. All methods belong to one event loop.
    """

    def __init__(self, num_threads: int, name: str, num_ahead: int = 0) -> None:
        """`num_ahead` jobs are given to the threads beyond those that run: a busy event loop, which
        says whose turn it is, must not keep them idle."""
        self._executor = ThreadPoolExecutor(num_threads, thread_name_prefix=name)
        self._num_free = num_threads + num_ahead
        self._waiting: RoundRobin[asyncio.Future[None]] = RoundRobin()

    async def run(
        self,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        """What the function returns, or raises; Overloaded if too much waits already."""
        return await self.run_for("", function, *args, **kwargs)

    async def run_for(
        self,
        tenant: str,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        """The same, when it is this tenant's turn."""
        await self._wait_for_thread(tenant)
        loop = asyncio.get_running_loop()
        job = self._executor.submit(partial(function, *args, **kwargs))
        # Not once this coroutine ends: a job whose client has left still has its thread.
        job.add_done_callback(lambda _: loop.call_soon_threadsafe(self._pass_on))
        return await asyncio.wrap_future(job)

    def close(self) -> None:
        """Let running work end, drop what waits, and end the threads."""
        while (turn := self._waiting.next()) is not None:
            turn.cancel()
        self._executor.shutdown(wait=True, cancel_futures=True)

    async def _wait_for_thread(self, tenant: str) -> None:
        """Return with a thread of one's own, which `_pass_on` gives to the next."""
        if self._num_free:
            self._num_free -= 1
            return
        self._check_bound(tenant)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.join(tenant, turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.leave(tenant, turn)
            if not turn.cancelled():  # it had been given the thread already
                self._pass_on()
            raise

    def _check_bound(self, tenant: str) -> None:
        free, own = MAX_WAITING - len(self._waiting), self._waiting.num_of(tenant)
        if free <= 0 or (tenant and leaves_too_little(own, free)):
            raise Overloaded(
                f"too many prompts wait to be tokenized: {own} of this API key, {len(self._waiting)} "
                f"of all, and {MAX_WAITING} may",
                RETRY_AFTER_SECONDS,
                "tokenizing",
            )

    def _pass_on(self) -> None:
        """Give a thread to whoever is next."""
        while (turn := self._waiting.next()) is not None:
            if not turn.done():  # its client may have left in this very moment
                turn.set_result(None)
                return
        self._num_free += 1
