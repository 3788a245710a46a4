"""What the cluster is known to be: messages in, verdicts and views out. Pure; takes `now`."""

from collections.abc import Iterator
from dataclasses import dataclass

from cluster.config import CoordinatorConfig
from cluster.wire.messages import (
    BlockEvents,
    ClusterView,
    DesiredState,
    EngineEntry,
    EngineGoodbye,
    EnginePhase,
    EngineState,
    FrontendEntry,
    FrontendHello,
    FrontendReport,
    LoadReport,
    ProcessEntry,
    ProcessExited,
    ProcessStarted,
    Role,
    ToCoordinator,
)

OWN_PAUSE_SECONDS = 0.5
"""A longer gap between two looks at the clock means that this process did not run (a suspended
machine, a debugger): the silence of others meanwhile proves nothing."""

LONGEST_STEPS_BEFORE_HUNG = 10
DRAINED = "drained"
"""The cause of a planned end."""


@dataclass(slots=True)
class EngineRecord:
    """One engine's newest incarnation."""

    rank: int
    incarnation: int
    heard_at: float
    report: LoadReport | None = None
    is_dead: bool = False
    cause: str = ""
    fault: bool = False
    restarts: int = 0
    pid: int = 0
    parked: bool = False

    @property
    def is_serving(self) -> bool:
        """Whether it has finished starting, by its own word."""
        return self.report is not None and self.report.phase >= EnginePhase.READY


@dataclass(slots=True)
class FrontendRecord:
    """One frontend's newest incarnation."""

    index: int
    incarnation: int
    is_dead: bool = False
    requests_address: str = ""
    outputs_address: str = ""
    in_flight: int = 0
    queued: int = 0
    restarts: int = 0
    pid: int = 0


class ClusterState:
    """Membership and load, gathered from reports and from what the launcher has seen.

    All of it is soft: a new coordinator knows everything again after one round of reports. A
    verdict of DEAD is for an incarnation and for good; a newer incarnation starts afresh.
    """

    def __init__(self, config: CoordinatorConfig, incarnation: int, now: float) -> None:
        self._config = config
        self._incarnation = incarnation
        self._engines: dict[int, EngineRecord] = {}
        self._frontends: dict[int, FrontendRecord] = {}
        self._desired_engines: int | None = None
        self._draining = False
        self._view_seq = 0
        self._looked_at = now
        self.is_changed = True
        """Whether anything happened since the last view."""
        self.is_urgent = False
        """Whether it is news that nobody should wait for: a death, a start, a drain."""

    # ── messages in ──

    def apply(self, message: ToCoordinator, now: float) -> None:
        """Take in one message. Those of incarnations that are past change nothing."""
        self._notice_own_pause(now)
        match message:
            case LoadReport():
                self._apply_report(message, now)
            case EngineGoodbye():
                engine = self._engine(message.rank, message.incarnation, now)
                if engine is not None:
                    reason = DRAINED if message.drained else f"error: {message.reason}"
                    self._bury(engine, reason, fault=not message.drained)
            case FrontendHello():
                self._apply_hello(message)
            case FrontendReport():
                frontend = self._frontend(message.index, message.incarnation)
                if frontend is not None:
                    frontend.in_flight, frontend.queued = message.in_flight, message.queued
                    self.is_changed = True
            case ProcessStarted():
                self._apply_started(message, now)
            case ProcessExited():
                self._apply_exit(message, now)
            case DesiredState():
                self._apply_desired(message, now)
            case BlockEvents():
                pass  # passed on as it is by the coordinator; no state is kept of it

    def _apply_report(self, report: LoadReport, now: float) -> None:
        engine = self._engine(report.rank, report.incarnation, now)
        if engine is None or engine.is_dead:
            return
        engine.heard_at = now
        if engine.report is not None and report.report_seq <= engine.report.report_seq:
            return
        if engine.report is None or engine.report.phase != report.phase:
            self.is_urgent = True
        engine.report = report
        self.is_changed = True

    def _apply_hello(self, hello: FrontendHello) -> None:
        frontend = self._frontend(hello.index, hello.incarnation)
        if frontend is None or frontend.requests_address:
            return
        frontend.requests_address = hello.requests_address
        frontend.outputs_address = hello.outputs_address
        self.is_changed = self.is_urgent = True

    def _apply_started(self, started: ProcessStarted, now: float) -> None:
        process: EngineRecord | FrontendRecord | None = None
        if started.role is Role.ENGINE:
            process = self._engine(started.index, started.incarnation, now)
        elif started.role is Role.FRONTEND:
            process = self._frontend(started.index, started.incarnation)
        if process is not None:
            process.pid = started.pid

    def _apply_exit(self, exited: ProcessExited, now: float) -> None:
        if exited.role is Role.ENGINE:
            engine = self._engine(exited.index, exited.incarnation, now)
            if engine is not None:
                self._bury(engine, exited.cause, exited.fault)
        elif exited.role is Role.FRONTEND:
            frontend = self._frontend(exited.index, exited.incarnation)
            if frontend is not None and not frontend.is_dead:
                frontend.is_dead = True
                frontend.in_flight = frontend.queued = 0
                self.is_changed = self.is_urgent = True

    def _apply_desired(self, desired: DesiredState, now: float) -> None:
        if (desired.draining, desired.engines) != (self._draining, self._desired_engines):
            self._draining, self._desired_engines = desired.draining, desired.engines
            self.is_changed = self.is_urgent = True
        for entry in desired.processes:
            self._reconcile(entry, now)

    def _reconcile(self, entry: ProcessEntry, now: float) -> None:
        """Learn what a lost or earlier message would have said."""
        if not entry.alive:
            exited = ProcessExited(
                entry.role, entry.index, entry.incarnation, entry.cause, entry.fault
            )
            self._apply_exit(exited, now)
        record: EngineRecord | FrontendRecord | None = None
        if entry.role is Role.ENGINE:
            record = self._engine(entry.index, entry.incarnation, now)
            if isinstance(record, EngineRecord):
                record.parked = entry.parked
        elif entry.role is Role.FRONTEND:
            record = self._frontend(entry.index, entry.incarnation)
        if record is not None:
            record.pid, record.restarts = entry.pid, entry.restarts

    # ── records ──

    def _engine(self, rank: int, incarnation: int, now: float) -> EngineRecord | None:
        """The record of this incarnation; None if a newer one is known."""
        known = self._engines.get(rank)
        if known is not None and known.incarnation > incarnation:
            return None
        if known is None or known.incarnation < incarnation:
            known = self._engines[rank] = EngineRecord(rank, incarnation, heard_at=now)
            self.is_changed = self.is_urgent = True
        return known

    def _frontend(self, index: int, incarnation: int) -> FrontendRecord | None:
        known = self._frontends.get(index)
        if known is not None and known.incarnation > incarnation:
            return None
        if known is None or known.incarnation < incarnation:
            known = self._frontends[index] = FrontendRecord(index, incarnation)
            self.is_changed = self.is_urgent = True
        return known

    def _bury(self, engine: EngineRecord, cause: str, fault: bool) -> None:
        if engine.is_dead:
            return  # the first cause is the true one; a kill that follows a verdict is its effect
        engine.is_dead, engine.cause, engine.fault = True, cause, fault
        self.is_changed = self.is_urgent = True

    # ── time ──

    def expire(self, now: float) -> None:
        """Declare dead what has given no sign of progress for too long."""
        self._notice_own_pause(now)
        for engine in self._engines.values():
            if engine.is_dead or not engine.is_serving:
                continue  # loading has the launcher's deadline
            cause = self._hang(engine, now)
            if cause is not None:
                self._bury(engine, cause, fault=True)

    def _hang(self, engine: EngineRecord, now: float) -> str | None:
        report = engine.report
        assert report is not None
        silence = now - engine.heard_at
        if silence > self._config.hang_timeout:
            return f"silent: no sign of life for {silence:.1f} s"
        limit = max(
            self._config.hang_timeout, LONGEST_STEPS_BEFORE_HUNG * report.predicted_step_seconds
        )
        stuck = report.seconds_since_step + silence
        if report.waiting + report.running > 0 and stuck > limit:
            return f"hung: no step finished for {stuck:.1f} s (limit {limit:.1f} s)"
        return None

    def _notice_own_pause(self, now: float) -> None:
        pause = now - self._looked_at
        self._looked_at = now
        if pause > OWN_PAUSE_SECONDS:
            for engine in self._engines.values():
                engine.heard_at += pause

    def _state(self, engine: EngineRecord, now: float) -> EngineState:
        if engine.is_dead:
            return EngineState.DEAD
        if not engine.is_serving:
            return EngineState.STARTING
        if now - engine.heard_at > self._config.suspect_after:
            return EngineState.SUSPECT
        assert engine.report is not None
        if engine.report.phase is EnginePhase.DRAINING:
            return EngineState.DRAINING
        return EngineState.READY

    # ── views out ──

    def view(self, now: float) -> ClusterView:
        """The whole cluster as it is now; a newer view than all before."""
        self._view_seq += 1
        self.is_changed = self.is_urgent = False
        return ClusterView(
            coordinator_incarnation=self._incarnation,
            view_seq=self._view_seq,
            draining=self._draining,
            engines=list(self._engine_entries(now)),
            frontends=[
                FrontendEntry(
                    frontend.index,
                    frontend.incarnation,
                    alive=not frontend.is_dead,
                    requests_address=frontend.requests_address,
                    outputs_address=frontend.outputs_address,
                    in_flight=frontend.in_flight,
                    queued=frontend.queued,
                    restarts=frontend.restarts,
                    pid=frontend.pid,
                )
                for _, frontend in sorted(self._frontends.items())
            ],
        )

    def _engine_entries(self, now: float) -> Iterator[EngineEntry]:
        for rank, engine in sorted(self._engines.items()):
            yield EngineEntry(
                rank,
                engine.incarnation,
                self._state(engine, now),
                cause=engine.cause,
                fault=engine.fault,
                report=engine.report,
                report_age_seconds=now - engine.heard_at,
                restarts=engine.restarts,
                pid=engine.pid,
                parked=engine.parked,
            )
