"""How processes are taken out of service and brought back while the cluster serves."""

import asyncio
import logging
from collections.abc import Callable

from cluster.config import LaunchConfig
from cluster.errors import ControlError
from cluster.launch.changes import Changes
from cluster.launch.keeper import ProcessKeeper
from cluster.launch.managed_process import DRAINED, ManagedProcess
from cluster.launch.operation_checks import is_serving
from cluster.wire.messages import Role

FRONTEND_GRACE_SECONDS = 3.0
"""Beyond the shutdown deadline, for frontends to close what they have cut."""

END_SECONDS = 5.0
"""What engines and the coordinator get to end in good order."""


class Procedures:
    """Steps that wait; each leaves the processes in order when it is cancelled.

    `on_change` is called when a process is to be seen in another state by all, `advance` with what
    is being waited for.
    """

    def __init__(
        self,
        keeper: ProcessKeeper,
        settings: LaunchConfig,
        changes: Changes,
        on_change: Callable[[], None],
        advance: Callable[[str], None],
    ) -> None:
        self._keeper = keeper
        self._settings = settings
        self._changes = changes
        self._on_change = on_change
        self._advance = advance
        self._logger = logging.getLogger("launch")

    async def drain(self, engine: ManagedProcess, deadline_seconds: float | None = None) -> None:
        """Give an engine no new work, end it once it is idle or late, and leave it so.

        Raises ControlError if it cannot be ended.
        """
        if deadline_seconds is None:
            deadline_seconds = self._settings.shutdown_timeout
        engine.is_draining = True
        engine.cancel_restart()
        if not engine.is_alive:
            engine.phase, engine.parked = DRAINED, False
            self._on_change()
            return
        self._on_change()
        self._advance(f"{engine.name} finishes its requests")
        try:
            if not await self._changes.wait_until(lambda: _has_no_work(engine), deadline_seconds):
                self._logger.info("%s: its deadline is over, its requests move", engine.name)
        except asyncio.CancelledError:
            engine.is_draining = False
            raise
        await self._end(engine, "drained")

    async def restart_engine(self, engine: ManagedProcess) -> None:
        """Drain an engine and start it anew; also one that was drained or parked.

        Raises ControlError if it is not ready again in time.
        """
        try:
            await self.drain(engine)
        except asyncio.CancelledError:
            self._bring_back(engine)  # what waits for it is to be served before the end
            raise
        await self._start(engine)

    async def retire(self, frontend: ManagedProcess) -> str:
        """End one frontend without failing a request; what there is to say of it, or nothing.

        Raises ControlError if it cannot be ended.
        """
        frontend.is_draining = True
        frontend.cancel_restart()
        self._on_change()
        if frontend.is_alive:
            self._advance(f"{frontend.name} finishes its requests")
            self._keeper.retire(frontend, "retired")
            await self._until_ended(
                frontend, self._settings.shutdown_timeout + FRONTEND_GRACE_SECONDS
            )
            if frontend.is_loaded and frontend.return_code != 0:
                return f"{frontend.name} cut requests that did not end by the deadline"
        return ""

    async def restart_frontend(self, frontend: ManagedProcess) -> str:
        """Let one frontend end by itself, and start its successor; the others accept meanwhile.

        The listening socket stays open, so without others the clients wait for the successor.
        Raises ControlError if that is not ready in time.
        """
        remark = await self.retire(frontend)
        await self._start(frontend)
        return remark

    async def restart_coordinator(self) -> None:
        """Start the coordinator anew. Raises ControlError if it is not ready in time."""
        [coordinator] = self._keeper.of(Role.COORDINATOR)
        if coordinator.is_alive:
            await self._end(coordinator, "restarted")
        await self._start(coordinator)

    async def restart_all(self) -> str:
        """Restart everything that is in service, one at a time; what there is to say of it.

        Raises ControlError, leaving the rest alone, for the first that is not ready in time.
        """
        remarks = []
        for engine in self._keeper.of(Role.ENGINE):
            if not engine.is_draining:
                await self._until_another_serves(engine)
                await self.restart_engine(engine)
        for frontend in self._keeper.of(Role.FRONTEND):
            await self._until_another_serves(frontend)
            remarks.append(await self.restart_frontend(frontend))
        await self.restart_coordinator()
        return "; ".join(filter(None, remarks))

    async def until_ready(self, process: ManagedProcess) -> None:
        """Wait until a process that was started is ready. Raises ControlError if it is too late."""
        self._advance(f"{process.name} starts")
        limit = self._settings.startup_timeout
        await self._changes.wait_until(lambda: process.is_ready or process.parked, limit)
        if not process.is_ready:
            last = f", after {process.last_exit.text}" if process.last_exit else ""
            raise ControlError(
                f"{process.name} was not ready within --startup-timeout {limit:g} s: it is "
                f"{process.phase}{last}; the other processes were left alone"
            )

    async def _until_another_serves(self, process: ManagedProcess) -> None:
        """A peer that has just died is waited for, or nobody would serve."""
        peers = [p for p in self._keeper.of(process.spec.role) if p is not process]
        if all(peer.is_draining or peer.parked for peer in peers):
            return
        self._advance(f"{process.name} waits until another {process.spec.role.name.lower()} serves")
        limit = self._settings.startup_timeout
        if not await self._changes.wait_until(lambda: any(map(is_serving, peers)), limit):
            raise ControlError(
                f"{process.name} was not restarted: no other {process.spec.role.name.lower()} was "
                f"ready within --startup-timeout {limit:g} s"
            )

    async def _start(self, process: ManagedProcess) -> None:
        process.return_to_service()
        self._keeper.start(process)
        await self.until_ready(process)

    def _bring_back(self, process: ManagedProcess) -> None:
        process.return_to_service()
        if not process.is_alive and process.spec.role in self._keeper.restarted_roles:
            self._keeper.start(process)

    async def _end(self, process: ManagedProcess, planned_cause: str) -> None:
        self._keeper.end(process, planned_cause)
        await self._until_ended(process, END_SECONDS)

    async def _until_ended(self, process: ManagedProcess, limit_seconds: float) -> None:
        if await self._changes.wait_until(lambda: not process.is_alive, limit_seconds):
            return
        self._logger.warning("killing %s, still there after %g s", process.name, limit_seconds)
        self._keeper.kill_one(process)
        if not await self._changes.wait_until(lambda: not process.is_alive, END_SECONDS):
            raise ControlError(f"{process.name} is still there, though killed")


def _has_no_work(engine: ManagedProcess) -> bool:
    return not engine.is_alive or not engine.is_loaded or engine.is_idle
