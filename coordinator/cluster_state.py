"""What the cluster is known to be: messages in, verdicts and views out. Pure; takes `now`."""

from collections.abc import Callable, Iterator
from typing import TypeVar

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
from coordinator.process_record import EngineRecord, FrontendRecord, ProcessRecord

OWN_PAUSE_SECONDS = 0.5
"""A longer gap between two looks at the clock means that this process did not run (a suspended
machine, a debugger): the silence of others meanwhile proves nothing."""

LONGEST_STEPS_BEFORE_HUNG = 10
FRONTEND_HANG_TIMEOUTS = 3
"""A silent frontend gets so many hang timeouts: its death breaks its connections, and meanwhile the
others accept all new ones."""

Record = TypeVar("Record", EngineRecord, FrontendRecord)


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
        self._size: tuple[int, int] | None = None
        """How many engines and frontends there are to be, once the launcher has told."""
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
                    self._bury(engine, message.cause, fault=not message.drained)
            case FrontendHello():
                self._apply_hello(message, now)
            case FrontendReport():
                self._apply_frontend_report(message, now)
            case ProcessStarted():
                process = self._process(message.role, message.index, message.incarnation, now)
                if process is not None:
                    process.pid = message.pid
            case ProcessExited():
                process = self._process(message.role, message.index, message.incarnation, now)
                if process is not None:
                    self._bury(process, message.cause, message.fault)
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

    def _apply_hello(self, hello: FrontendHello, now: float) -> None:
        frontend = self._frontend(hello.index, hello.incarnation, now)
        if frontend is None:
            return
        frontend.heard_at = now
        if frontend.requests_address:
            return
        frontend.requests_address = hello.requests_address
        frontend.outputs_address = hello.outputs_address
        self.is_changed = self.is_urgent = True

    def _apply_frontend_report(self, report: FrontendReport, now: float) -> None:
        frontend = self._frontend(report.index, report.incarnation, now)
        if frontend is None or frontend.is_dead:
            return
        frontend.heard_at = now
        frontend.in_flight, frontend.queued = report.in_flight, report.queued
        self.is_changed = True

    def _apply_desired(self, desired: DesiredState, now: float) -> None:
        size = (desired.engines, desired.frontends)
        if (desired.draining, size) != (self._draining, self._size):
            self._draining, self._size = desired.draining, size
            _keep_below(desired.engines, self._engines)
            _keep_below(desired.frontends, self._frontends)
            self.is_changed = self.is_urgent = True
        for entry in desired.processes:
            self._reconcile(entry, now)

    def _reconcile(self, entry: ProcessEntry, now: float) -> None:
        """Learn what a lost or earlier message would have said."""
        process = self._process(entry.role, entry.index, entry.incarnation, now)
        if process is None:
            return
        if not entry.alive:
            self._bury(process, entry.cause, entry.fault)
        process.pid, process.restarts = entry.pid, entry.restarts
        if isinstance(process, EngineRecord):
            process.parked = entry.parked

    # ── records ──

    def _process(
        self, role: Role, index: int, incarnation: int, now: float
    ) -> EngineRecord | FrontendRecord | None:
        match role:
            case Role.ENGINE:
                return self._engine(index, incarnation, now)
            case Role.FRONTEND:
                return self._frontend(index, incarnation, now)
            case Role.COORDINATOR:
                return None

    def _engine(self, rank: int, incarnation: int, now: float) -> EngineRecord | None:
        size = self._size[0] if self._size is not None else None
        return self._newest(self._engines, EngineRecord, size, rank, incarnation, now)

    def _frontend(self, index: int, incarnation: int, now: float) -> FrontendRecord | None:
        size = self._size[1] if self._size is not None else None
        return self._newest(self._frontends, FrontendRecord, size, index, incarnation, now)

    def _newest(
        self,
        records: dict[int, Record],
        make: Callable[[int, int, float], Record],
        size: int | None,
        place: int,
        incarnation: int,
        now: float,
    ) -> Record | None:
        """The record of this incarnation; None if a newer one is known, or there is no such place."""
        if size is not None and not 0 <= place < size:
            return None
        known = records.get(place)
        if known is not None and known.incarnation > incarnation:
            return None
        if known is None or known.incarnation < incarnation:
            known = records[place] = make(place, incarnation, now)
            self.is_changed = self.is_urgent = True
        return known

    def _bury(self, process: ProcessRecord, cause: str, fault: bool) -> None:
        if process.is_dead:
            return  # the first cause is the true one; a kill that follows a verdict is its effect
        process.is_dead, process.cause, process.fault = True, cause, fault
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
        for frontend in self._frontends.values():
            silence = now - frontend.heard_at
            limit = FRONTEND_HANG_TIMEOUTS * self._config.hang_timeout
            if frontend.is_serving and silence > limit:
                self._bury(frontend, _silent(silence), fault=True)

    def _hang(self, engine: EngineRecord, now: float) -> str | None:
        report = engine.report
        assert report is not None
        silence = now - engine.heard_at
        if silence > self._config.hang_timeout:
            return _silent(silence)
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
            for process in (*self._engines.values(), *self._frontends.values()):
                process.heard_at += pause

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
            frontends=list(self._frontend_entries()),
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

    def _frontend_entries(self) -> Iterator[FrontendEntry]:
        for index, frontend in sorted(self._frontends.items()):
            yield FrontendEntry(
                index,
                frontend.incarnation,
                alive=not frontend.is_dead,
                requests_address=frontend.requests_address,
                outputs_address=frontend.outputs_address,
                in_flight=0 if frontend.is_dead else frontend.in_flight,
                queued=0 if frontend.is_dead else frontend.queued,
                restarts=frontend.restarts,
                pid=frontend.pid,
                cause=frontend.cause,
                fault=frontend.fault,
            )


def _keep_below(number: int, records: dict[int, EngineRecord] | dict[int, FrontendRecord]) -> None:
    """Forget places that the cluster does not have: whoever reported from there is a stranger."""
    for index in [index for index in records if not 0 <= index < number]:
        del records[index]


def _silent(seconds: float) -> str:
    return f"silent: no sign of life for {seconds:.1f} s"
