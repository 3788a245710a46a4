"""One frontend process: its HTTP server and its client, from start to drained."""

import asyncio
import logging
import signal
from collections.abc import Awaitable

from cluster.config import ClusterConfig
from frontend.client import DPLBClient
from frontend.http_server import Application, HttpServer
from frontend.http_settings import hypercorn_settings
from frontend.slow_readers import limit_slow_readers

LAST_BYTES_SECONDS = 2.0
"""What responses get to leave after their requests have ended."""
IDLE_SECONDS = 2.0
"""How long connections are kept that nobody uses, when this frontend retires: a request may be on its way."""


class FrontendServer:
    """Serves the app on the socket that the launcher has bound, until it is told to end.

    On SIGTERM the cluster leaves: nothing new is taken (503 with Retry-After). On SIGUSR1 only this
    frontend does: it accepts no connection any more, and answers what still comes on those that are
    open. Either way running requests get `shutdown_timeout`; the rest ends with an error that its
    clients see.
    """

    def __init__(
        self, config: ClusterConfig, client: DPLBClient, app: Application, listen_fd: int
    ) -> None:
        self._config = config
        self._client = client
        limit_slow_readers(listen_fd, config.frontend.slow_reader_timeout)
        self._http = HttpServer(
            app, hypercorn_settings(config.frontend), listen_fd, config.frontend.max_connections
        )
        self._logger = logging.getLogger("frontend")
        self._terminated = asyncio.Event()
        self._retired = asyncio.Event()

    async def run(self) -> bool:
        """Serve; whether every request finished by itself."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._terminated.set)
        loop.add_signal_handler(signal.SIGUSR1, self._retired.set)
        await self._client.start()
        await self._http.start()
        await _first_of(self._terminated.wait(), self._retired.wait())
        if self._terminated.is_set():
            have_all_finished = await self._drain()
        else:
            have_all_finished = await self._retire()
        if not have_all_finished:
            self._logger.warning("%d requests did not finish in time", self._client.num_in_flight)
            self._client.fail_all("the server is shutting down")
        await self._http.close(LAST_BYTES_SECONDS)
        await self._client.stop()
        return have_all_finished

    async def _drain(self) -> bool:
        self._client.leave()
        self._logger.info("draining: %d requests in flight", self._client.num_in_flight)
        return await self._in_time(self._client.wait_until_idle())

    async def _retire(self) -> bool:
        self._http.retire()
        self._logger.info("retiring: %d requests in flight", self._client.num_in_flight)
        retiring = asyncio.ensure_future(self._in_time(self._wait_until_unused()))
        await _first_of(retiring, self._terminated.wait())
        return await self._drain() if retiring.cancelled() else retiring.result()

    async def _wait_until_unused(self) -> None:
        await self._http.wait_until_unused(IDLE_SECONDS)
        await self._client.wait_until_idle()

    async def _in_time(self, work: Awaitable[object]) -> bool:
        try:
            async with asyncio.timeout(self._config.launch.shutdown_timeout):
                await work
        except TimeoutError:
            return False
        return True


async def _first_of(*works: Awaitable[object]) -> None:
    futures = [asyncio.ensure_future(work) for work in works]
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
