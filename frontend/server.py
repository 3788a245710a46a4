"""One frontend process: Hypercorn, the app and the client, from start to drained."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from typing import Any, cast

import hypercorn.asyncio
from hypercorn.config import Config as HypercornConfig

from cluster.config import ClusterConfig
from frontend.client import DPLBClient

LAST_BYTES_SECONDS = 2.0
"""What responses get to leave after their requests have ended."""
CLOSING_SECONDS = 0.5
"""What Hypercorn gets after that to close its connections."""

Application = Callable[..., Awaitable[None]]


class FrontendServer:
    """Serves the app on the socket that the launcher has bound, until SIGTERM and drained.

    On SIGTERM it takes nothing new (503 with Retry-After), lets running requests finish until
    `shutdown_timeout`, ends the rest with an error that their clients see, and returns.
    """

    def __init__(
        self, config: ClusterConfig, client: DPLBClient, app: Application, listen_fd: int
    ) -> None:
        self._config = config
        self._client = client
        self._app = app
        self._listen_fd = listen_fd
        self._logger = logging.getLogger("frontend")
        self._terminated = asyncio.Event()

    async def run(self) -> bool:
        """Serve; whether every request finished by itself."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._terminated.set)
        await self._client.start()
        all_finished = loop.create_future()
        serving = asyncio.ensure_future(
            hypercorn.asyncio.serve(
                cast("Any", self._app),
                self._hypercorn_config(),
                shutdown_trigger=lambda: self._drain(all_finished),
            )
        )
        await asyncio.wait((serving, all_finished), return_when=asyncio.FIRST_COMPLETED)
        # Hypercorn waits for ever to flush what a client does not read; the loop's end cuts that.
        await asyncio.wait((serving,), timeout=LAST_BYTES_SECONDS + CLOSING_SECONDS)
        if serving.done():
            serving.result()
        else:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        await self._client.stop()
        return bool(await all_finished)

    async def _drain(self, all_finished: "asyncio.Future[bool]") -> None:
        await self._terminated.wait()
        self._client.leave()
        self._logger.info("draining: %d requests in flight", self._client.num_in_flight)
        try:
            async with asyncio.timeout(self._config.launch.shutdown_timeout):
                await self._client.wait_until_idle()
            all_finished.set_result(True)
        except TimeoutError:
            self._logger.warning("%d requests did not finish in time", self._client.num_in_flight)
            all_finished.set_result(False)
            self._client.fail_all("the server is shutting down")

    def _hypercorn_config(self) -> HypercornConfig:
        settings = HypercornConfig()
        settings.bind = [f"fd://{self._listen_fd}"]
        settings.keep_alive_timeout = self._config.frontend.keep_alive_timeout
        settings.graceful_timeout = LAST_BYTES_SECONDS
        settings.backlog = 4096
        settings.accesslog = None
        settings.errorlog = logging.getLogger("hypercorn.error")
        # Its only other news is an address with advice about Ctrl-C, and both are the launcher's.
        settings.errorlog.setLevel(logging.WARNING)
        settings.include_server_header = False
        return settings
