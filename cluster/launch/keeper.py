"""Starts the processes of a plan, sees them end, and starts them again."""

import asyncio
import logging
import os
import random
import signal
import time
from collections.abc import Callable, Collection, Sequence

from cluster.config import LaunchConfig
from cluster.launch.child import Child
from cluster.launch.exit_cause import ExitCause, OutOfMemoryWatch, explain_exit
from cluster.launch.managed_process import ManagedProcess
from cluster.launch.plan import ProcessSpec
from cluster.launch.process_log import ProcessLog
from cluster.launch.restart_policy import RestartPolicy
from cluster.launch.rundir import RunDirectory
from cluster.telemetry.metrics import forget_gauges
from cluster.telemetry.process import LIFELINE_VARIABLE
from cluster.wire.messages import Role

_PLAN_ORDER = (Role.COORDINATOR, Role.ENGINE, Role.FRONTEND)
_ORDERLY_RETURN_CODES = (0, -signal.SIGTERM, -signal.SIGKILL)
"""Of processes that are not to run on: each ended by itself, or as it was made to."""


def _place_in_plan(process: ManagedProcess) -> tuple[int, int]:
    return _PLAN_ORDER.index(process.spec.role), process.spec.index


class ProcessKeeper:
    """Owns the children of one cluster.

    `on_started` and `on_ended` are called with the process whenever one of its incarnations was
    spawned or has ended, `on_restart` before one is spawned because its predecessor died. Processes of `restarted_roles` are then started again, each when its own
    policy allows, unless they are being taken out of service.
    """

    def __init__(
        self,
        plan: Sequence[ProcessSpec],
        settings: LaunchConfig,
        run_directory: RunDirectory,
        listen_fd: int,
        forward_output: Callable[[str], None],
        on_started: Callable[[ManagedProcess], None],
        on_restart: Callable[[ManagedProcess], None],
        on_ended: Callable[[ManagedProcess], None],
    ) -> None:
        self.processes: list[ManagedProcess] = []
        self.restarted_roles: Collection[Role] = frozenset(Role)
        self._settings = settings
        self._run_directory = run_directory
        self._forward_output = forward_output
        self._removed: dict[str, int] = {}
        """The last incarnation of each process that is no more: its place goes on counting."""
        self._listen_fd = listen_fd
        self._on_started = on_started
        self._on_restart = on_restart
        self._on_ended = on_ended
        self._lifeline, self._lifeline_end = os.pipe()
        self._out_of_memory = OutOfMemoryWatch()
        self._logger = logging.getLogger("launch")
        for spec in plan:
            self.add(spec)

    def add(self, spec: ProcessSpec) -> ManagedProcess:
        """A new place in the cluster; it is not started yet."""
        process = ManagedProcess(
            spec,
            RestartPolicy(self._settings.max_restarts, self._settings.restart_window),
            ProcessLog(self._run_directory.log_path(spec.file_name), self._forward_output),
            incarnation=self._removed.pop(spec.name, 0),
        )
        self.processes.append(process)
        self.processes.sort(key=_place_in_plan)
        return process

    def remove(self, process: ManagedProcess) -> None:
        """Forget a place whose process has ended for good."""
        assert not process.is_alive, f"{process.name} is still alive"
        process.cancel_restart()
        self._removed[process.spec.name] = process.incarnation
        self.processes.remove(process)

    def of(self, *roles: Role) -> list[ManagedProcess]:
        """The processes of these roles, in the order of the plan."""
        return [process for process in self.processes if process.spec.role in roles]

    def start_all(self) -> None:
        """Spawn everything at once: whoever is early waits for the others."""
        for process in list(self.processes):
            self.start(process)

    def command_line(self, process: ManagedProcess) -> list[str]:
        """What its newest incarnation was, or its next will be, started with."""
        return process.spec.command_line(max(1, process.incarnation), self._listen_fd)

    def start(self, process: ManagedProcess) -> None:
        """Spawn its next incarnation now."""
        assert not process.is_alive, f"{process.name} is still alive"
        process.begin(time.monotonic())
        spec = process.spec
        listener = (self._listen_fd,) if spec.inherits_listener else ()
        environment = {**os.environ, **spec.environment, LIFELINE_VARIABLE: str(self._lifeline)}
        try:
            process.child = Child(
                self.command_line(process),
                environment,
                (self._lifeline, *listener),
                process.log,
                lambda return_code: self._see_end(process, return_code),
            )
        except OSError as error:
            self._end(process, ExitCause(f"not spawned: {error.strerror}", fault=False), None)
            return
        process.pid = process.child.pid
        process.ended.clear()
        self._on_started(process)

    def _see_end(self, process: ManagedProcess, return_code: int) -> None:
        is_out_of_memory = self._out_of_memory.has_struck()
        cause = process.verdict or explain_exit(return_code, is_out_of_memory)
        if process.planned_cause and return_code in _ORDERLY_RETURN_CODES:
            cause = ExitCause(process.planned_cause, fault=False)
        if process.is_stopping:
            cause = cause._replace(fault=False)
        self._end(process, cause, return_code)

    def _end(self, process: ManagedProcess, cause: ExitCause, return_code: int | None) -> None:
        process.end(cause, return_code)
        spec = process.spec
        forget_gauges(self._run_directory.metrics_directory, spec.file_name)
        if spec.role is Role.FRONTEND:
            # Its successor listens elsewhere; the coordinator's listens in the same place.
            self._run_directory.remove_sockets(f"f{spec.index}.{process.incarnation}.")
        delay = 0.0
        if self._restarts(process):
            delay, process.parked = process.policy.died(time.monotonic(), random.random())
            process.phase = "parked" if process.parked else "restarting"
        self._on_ended(process)
        if self._restarts(process):  # unless that death has just ended the cluster
            self._start_later(process, cause, delay)
        else:
            level = logging.DEBUG if return_code in _ORDERLY_RETURN_CODES else logging.WARNING
            self._logger.log(level, "%s has ended (%s)", process.name, cause.text)

    def _restarts(self, process: ManagedProcess) -> bool:
        is_wanted = not process.is_stopping and not process.is_draining
        return process.spec.role in self.restarted_roles and is_wanted

    def _start_later(self, process: ManagedProcess, cause: ExitCause, delay: float) -> None:
        process.restart = asyncio.get_running_loop().call_later(delay, self._start_again, process)
        self._logger.warning(
            "%s has died (%s), restart %d %s",
            process.name,
            cause.text,
            process.restarts + 1,
            f"in {delay:.0f} s" if delay else "at once",
        )

    def _start_again(self, process: ManagedProcess) -> None:
        process.restarts += 1
        self._on_restart(process)
        self.start(process)

    def condemn(self, process: ManagedProcess, cause: ExitCause) -> None:
        """End a process that is of no use any more, its stacks going to its log if it hangs."""
        if process.child is not None and process.is_alive and process.verdict is None:
            process.verdict = cause
            self._logger.warning("%s is given up: %s", process.name, cause.text)
            process.child.give_up()

    def terminate(self, *roles: Role) -> None:
        """Ask all of these roles to end, for good; engines that still load are not asked.

        They would not listen before the model is there, and have no request to finish.
        """
        for process in self.of(*roles):
            if process.is_alive:
                self.end(process)
            else:
                process.let_end()
                process.return_code = None  # how it ended earlier says nothing of this ending

    def end(self, process: ManagedProcess, planned_cause: str = "") -> None:
        """Ask one process to end, for good until it is started anew.

        If it ends in good order, `planned_cause` is what is said of it.
        """
        process.let_end()
        process.planned_cause = planned_cause
        if process.child is not None:
            is_loading = process.spec.role is Role.ENGINE and not process.is_loaded
            (process.child.kill if is_loading else process.child.terminate)()

    def retire(self, process: ManagedProcess, planned_cause: str) -> None:
        """Let one frontend end by itself once its connections are served, the others going on."""
        assert process.spec.role is Role.FRONTEND, process.name
        process.let_end()
        process.planned_cause = planned_cause
        if process.child is not None:
            (process.child.retire if process.is_loaded else process.child.kill)()

    def kill(self, *roles: Role) -> None:
        """End all of these roles, for good."""
        for process in self.of(*roles):
            self.kill_one(process)

    def kill_one(self, process: ManagedProcess) -> None:
        """End one process, for good until it is started anew."""
        process.let_end()
        if process.child is not None:
            process.child.kill()

    async def ended(self, *roles: Role, timeout_seconds: float) -> bool:
        """Wait until none of these roles is alive; whether that came in time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                for process in self.of(*roles):
                    await process.ended.wait()
        except TimeoutError:
            return False
        return True

    def has_cut_requests(self) -> bool:
        """Whether a frontend that was asked to end did not finish its requests.

        One that SIGTERM ended outright had not yet begun to serve.
        """
        return any(
            process.return_code not in (None, 0, -signal.SIGTERM)
            for process in self.of(Role.FRONTEND)
        )

    def close(self) -> None:
        """Let go of the lifeline, which ends whoever is still there."""
        os.close(self._lifeline_end)
        os.close(self._lifeline)
