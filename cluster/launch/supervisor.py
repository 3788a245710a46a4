"""The life of one cluster: start, serve, drain, end."""

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cluster.config import ClusterConfig
from cluster.errors import OperationConflict
from cluster.launch.changes import Changes
from cluster.launch.cluster_link import ClusterLink
from cluster.launch.control_server import ControlServer
from cluster.launch.coordinator_watch import CoordinatorWatch
from cluster.launch.error_output import ErrorOutput
from cluster.launch.exit_cause import ExitCause
from cluster.launch.exit_codes import ExitCode
from cluster.launch.keeper import ProcessKeeper
from cluster.launch.launch_metrics import LaunchMetrics
from cluster.launch.listener import listener_url
from cluster.launch.managed_process import READY, ManagedProcess
from cluster.launch.operation import Operation
from cluster.launch.operation_book import OperationBook, Ticket
from cluster.launch.operations import Operations
from cluster.launch.plan import ProcessSpec
from cluster.launch.procedures import END_SECONDS, FRONTEND_GRACE_SECONDS, Procedures
from cluster.launch.recent_deaths import RecentDeaths
from cluster.launch.resizing import Resizing
from cluster.launch.rundir import RunDirectory
from cluster.launch.startup_display import StartupDisplay
from cluster.launch.state_report import StateReport
from cluster.launch.status import ClusterPhase, ClusterStatus
from cluster.launch.view_reader import apply_view
from cluster.telemetry.flight_recorder import flight_record_path, read_flight_record
from cluster.wire.endpoints import Endpoints
from cluster.wire.messages import (
    ClusterView,
    DesiredState,
    EngineDeath,
    FlightRecord,
    ProcessExited,
    ProcessStarted,
    Role,
)
from cluster.wire.sockets import Context

TICK_SECONDS = 0.5
COORDINATOR_SILENCE_SECONDS = 3.0
STOP_SIGNALS = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
    signal.SIGHUP: ExitCode.TERMINATED,
}
"""The signals that end a cluster in good order, and the exit code if another comes meanwhile."""


class Outcome(NamedTuple):
    """How a cluster ended, and why if it was not asked to."""

    code: ExitCode
    reason: str = ""


class Supervisor:
    """Keeps one cluster running until it is told to stop or nothing can be served any more.

    A thin shell: children are `ProcessKeeper`'s, restarts `RestartPolicy`'s, verdicts on engines the
    coordinator's. Here is only what the cluster as a whole does about them.
    """

    def __init__(
        self,
        config: ClusterConfig,
        plan: Callable[[ClusterConfig], Sequence[ProcessSpec]],
        run_directory: RunDirectory,
        listener: socket.socket,
        context: Context,
        output: ErrorOutput,
    ) -> None:
        """Must be made on a running event loop, with the metrics of this process joined."""
        self._settings = config.launch
        self._run_directory = run_directory
        self._loop = asyncio.get_running_loop()
        self._logger = logging.getLogger("launch")
        self._url = listener_url(listener, config.frontend.is_over_tls)
        self._is_up = False
        self._is_draining = False
        self._is_ending = False
        self._forced: ExitCode | None = None
        self._ending: asyncio.Future[Outcome] = self._loop.create_future()
        self._watch = CoordinatorWatch(COORDINATOR_SILENCE_SECONDS)
        self._metrics = LaunchMetrics()
        self._display = StartupDisplay(output)
        self._keeper = ProcessKeeper(
            plan(config),
            self._settings,
            run_directory,
            listener.fileno(),
            output.write,
            self._on_started,
            self._metrics.count_restart,
            self._on_ended,
        )
        self._deaths = RecentDeaths()
        self._changes = Changes()
        self._book = OperationBook()
        procedures = Procedures(
            self._keeper, self._settings, self._changes, self._tell_all, self._book.advance
        )
        resizing = Resizing(
            config, plan, self._keeper, run_directory, procedures, self._tell_all, self._on_removed
        )
        self._operations = Operations(
            self._book, self._keeper, procedures, resizing, self._tell_all
        )
        self._report = StateReport(
            self._url,
            config.model.served_model_name or "",
            run_directory,
            self._keeper,
            self._book,
        )
        endpoints = Endpoints(run_directory.path)
        self._link = ClusterLink(context, endpoints, self._on_view, self._metrics.bad_frame)
        self._control = ControlServer(
            context, endpoints, self.status, self._stop, self._begin, self._metrics.bad_frame
        )

    # ── the life ──

    async def run(self) -> Outcome:
        """Start everything, stay until the end, and leave no process behind."""
        for number in STOP_SIGNALS:
            # `nohup launch` means it; a shell's background jobs ignore SIGINT for no such reason.
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._loop.add_signal_handler(number, self._on_signal, number)
        ticking = asyncio.create_task(self._tick_forever())
        deadline = self._loop.call_later(self._settings.startup_timeout, self._miss_deadline)
        try:
            self._keeper.start_all()
            outcome = await self._ending
            await self._operations.cancel()
            if outcome.code is ExitCode.OK:
                outcome = Outcome(await self._drain())
            await self._end_all()
        finally:
            deadline.cancel()
            ticking.cancel()
            self._display.end()
            self._link.close()
            self._control.close()
            self._keeper.close()
        self._logger.info("every process has ended")
        return Outcome(self._forced) if self._forced is not None else outcome

    async def _drain(self) -> ExitCode:
        """Let the frontends finish their requests; whether all were finished."""
        self._is_draining = True
        self._keeper.restarted_roles = {Role.ENGINE, Role.COORDINATOR}
        self._logger.info("draining: requests get %g s", self._settings.shutdown_timeout)
        self._tell_all()
        self._keeper.terminate(Role.FRONTEND)
        in_time = await self._keeper.ended(
            Role.FRONTEND,
            timeout_seconds=self._settings.shutdown_timeout + FRONTEND_GRACE_SECONDS,
        )
        if in_time and not self._keeper.has_cut_requests():
            return ExitCode.OK
        if self._forced is None:
            self._logger.warning("some requests were cut")
        return ExitCode.FAILED

    async def _end_all(self) -> None:
        """End every process, in good order if that is quick."""
        self._is_ending = True
        self._keeper.restarted_roles = frozenset()
        self._keeper.kill(Role.FRONTEND)
        self._keeper.terminate(Role.ENGINE, Role.COORDINATOR)
        if await self._keeper.ended(*Role, timeout_seconds=END_SECONDS):
            return
        self._logger.warning("killing %s, still there after %g s", self._alive(), END_SECONDS)
        self._keeper.kill(*Role)
        if not await self._keeper.ended(*Role, timeout_seconds=END_SECONDS):
            self._logger.error("%s: still there, though killed", self._alive())

    def _alive(self) -> str:
        return ", ".join(process.name for process in self._keeper.processes if process.is_alive)

    def _finish(self, outcome: Outcome) -> None:
        """Let this be how the cluster ends, unless it is ending already."""
        if not self._ending.done():
            self._ending.set_result(outcome)

    def _stop(self, is_immediate: bool) -> None:
        self._finish(Outcome(ExitCode.OK))
        if is_immediate:
            self._force(ExitCode.FAILED)

    def _begin(self, operation: Operation) -> Ticket:
        if self._ending.done():
            raise OperationConflict(f"{operation.words}: the cluster is stopping")
        if not self._is_up:
            raise OperationConflict(f"{operation.words}: the cluster is still starting")
        return self._operations.begin(operation)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._ending.done():
            self._force(STOP_SIGNALS[number])
        else:
            self._logger.info("%s: stopping; once more ends everything at once", number.name)
            self._finish(Outcome(ExitCode.OK))

    def _force(self, code: ExitCode) -> None:
        self._forced = self._forced or code
        self._keeper.restarted_roles = frozenset()
        self._keeper.kill(*Role)

    # ── what happens to the processes ──

    def _on_started(self, process: ManagedProcess) -> None:
        if process.spec.role is Role.COORDINATOR:
            self._watch.restarted()
        spec = process.spec
        self._link.tell(ProcessStarted(spec.role, spec.index, process.incarnation, process.pid))
        self._tell_all()

    def _on_ended(self, process: ManagedProcess) -> None:
        assert process.last_exit is not None
        spec, cause = process.spec, process.last_exit
        flight = self._bury(process, cause) if spec.role is Role.ENGINE else None
        self._link.tell(
            ProcessExited(
                spec.role, spec.index, process.incarnation, cause.text, cause.fault, flight
            )
        )
        self._judge_death(process, cause)
        self._tell_all()

    def _bury(self, engine: ManagedProcess, cause: ExitCause) -> FlightRecord | None:
        """Whom it was computing when it failed; its record goes, and its death is remembered."""
        rank, incarnation = engine.spec.index, engine.incarnation
        path = flight_record_path(self._run_directory.path, rank, incarnation)
        flight = read_flight_record(path) if cause.fault else None
        path.unlink(missing_ok=True)
        self._deaths.add(
            EngineDeath(rank, incarnation, cause.text, cause.fault, flight), time.monotonic()
        )
        return flight

    def _on_removed(self, process: ManagedProcess) -> None:
        if process.spec.role is Role.ENGINE:
            self._metrics.forget_engine(process.spec.index)

    def _judge_death(self, process: ManagedProcess, cause: ExitCause) -> None:
        peers = self._keeper.of(process.spec.role)
        if process.is_stopping or self._ending.done():
            return
        if not self._is_up and not any(peer.was_ready for peer in peers):
            lines = "".join(f"\n  {line}" for line in process.log.tail)
            told = f" Its last lines:{lines}" if lines else " It printed nothing."
            self._finish(
                Outcome(
                    ExitCode.NOT_STARTED,
                    f"{process.name} ended while it was starting: {cause.text}.{told}",
                )
            )
            self._keeper.restarted_roles = frozenset()
        elif all(peer.parked for peer in peers) and process.spec.role is not Role.COORDINATOR:
            self._finish(
                Outcome(
                    ExitCode.CANNOT_SERVE,
                    f"no {process.spec.role.name.lower()} can be kept running; the last end was "
                    f"{process.name}'s: {cause.text}",
                )
            )

    def _miss_deadline(self) -> None:
        if self._is_up:
            return
        states = ", ".join(f"{p.name} is {p.phase}" for p in self._keeper.processes)
        self._finish(
            Outcome(
                ExitCode.NOT_STARTED,
                f"the cluster was not ready within --startup-timeout "
                f"{self._settings.startup_timeout:g} s: {states}",
            )
        )

    # ── what the coordinator sees ──

    def _on_view(self, view: ClusterView) -> None:
        coordinator = self._keeper.of(Role.COORDINATOR)[0]
        if view.coordinator_incarnation != coordinator.incarnation or not coordinator.is_alive:
            return
        if self._watch.heard(time.monotonic()):
            self._link.tell(self._desired_state())  # a new coordinator is to be whole at once
        before = [process.phase for process in self._keeper.processes]
        for process, verdict in apply_view(view, self._keeper.processes):
            if not process.is_stopping:
                self._keeper.condemn(process, verdict)
        self._display.update(self._keeper.processes)
        self._announce_when_up()
        self._changes.notify()
        if before != [process.phase for process in self._keeper.processes]:
            self._show_state()

    def _announce_when_up(self) -> None:
        if self._is_up or self._ending.done():
            return
        if all(
            any(process.is_ready for process in self._keeper.of(role))
            for role in (Role.ENGINE, Role.FRONTEND)
        ):
            self._is_up = True
            self._display.announce(self._url, self._run_directory.cluster_id)

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._watch_coordinator()
            self._link.tell(self._desired_state())

    def _watch_coordinator(self) -> None:
        silence = self._watch.silence(time.monotonic())
        if silence is not None and not self._is_ending:
            cause = ExitCause(f"hung: no view for {silence:.1f} s", fault=True)
            for coordinator in self._keeper.of(Role.COORDINATOR):
                self._keeper.condemn(coordinator, cause)

    # ── what others are told ──

    def _tell_all(self) -> None:
        self._link.tell(self._desired_state())
        self._display.update(self._keeper.processes)
        self._changes.notify()
        self._show_state()

    def _desired_state(self) -> DesiredState:
        return DesiredState(
            len(self._keeper.of(Role.ENGINE)),
            len(self._keeper.of(Role.FRONTEND)),
            self._is_draining or self._is_ending,
            [process.entry() for process in self._keeper.processes],
            self._deaths.told(time.monotonic()),
        )

    def _show_state(self) -> None:
        """Bring the metrics and `state.json` up to date."""
        self._metrics.show_engines(self._keeper.of(Role.ENGINE))
        self._report.save(self._phase())

    def status(self) -> ClusterStatus:
        """Everything that is known of the cluster and its processes."""
        return self._report.status(self._phase())

    def _phase(self) -> ClusterPhase:
        if self._is_draining or self._is_ending:
            return "draining"
        if not self._is_up:
            return "starting"
        is_whole = all(process.phase == READY for process in self._keeper.processes)
        return "ready" if is_whole else "degraded"
