"""What the cluster is known to be: messages in, verdicts and views out. Pure; takes `now`."""

import math
from collections.abc import Callable
from typing import TypeVar

from cluster.config import CoordinatorConfig
from cluster.wire.messages import (
    BlockEvents,
    ClusterView,
    DesiredState,
    EngineDeath,
    EngineGoodbye,
    EngineState,
    FlightRecord,
    FrontendHello,
    FrontendReport,
    LoadReport,
    ProcessEntry,
    ProcessExited,
    ProcessStarted,
    Role,
    ToCoordinator,
)
from coordinator.convictions import Convictions
from coordinator.hang import engine_verdict, silent
from coordinator.obituaries import Obituaries
from coordinator.process_record import EngineRecord, FrontendRecord, ProcessRecord

OWN_PAUSE_SECONDS = 0.5
"""A longer gap between two looks at the clock means that this process did not run (a suspended
machine, a debugger): the silence of others meanwhile proves nothing."""

FRONTEND_HANG_TIMEOUTS = 3
"""A silent frontend gets so many hang timeouts: its death breaks its connections, and meanwhile the
others accept all new ones."""

Record = TypeVar("Record", EngineRecord, FrontendRecord)


class ClusterState:
    """Membership and load, gathered from reports and from what the launcher has seen.

    All of it is soft: a new coordinator knows everything again after one round of reports. A
    verdict of DEAD is for an incarnation and for good; a newer incarnation starts afresh.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        incarnation: int,
        now: float,
        read_flight: Callable[[int, int], FlightRecord | None],
    ) -> None:
        """`read_flight(rank, incarnation)` tells whom an engine is computing that hangs."""
        self._config = config
        self._read_flight = read_flight
        self._incarnation = incarnation
        self._engines: dict[int, EngineRecord] = {}
        self._frontends: dict[int, FrontendRecord] = {}
        self._size: tuple[int, int] | None = None
        """How many engines and frontends there are to be, once the launcher has told."""
        self._started: dict[tuple[Role, int], int] = {}
        """The newest incarnation of each place that the launcher has told of."""
        self._draining = False
        self._obituaries = Obituaries()
        self._convictions = Convictions()
        self._view_seq = 0
        self._looked_at = now
        self._resumed_at: float | None = None
        """When this process ran again after a pause of its own, if it had one."""
        self.is_changed = True
        """Whether anything happened since the last view."""
        self.is_urgent = False
        """Whether it is news that nobody should wait for: a death, a start, a drain."""

    # ── messages in ──

    def apply(self, message: ToCoordinator, now: float) -> None:
        """Take in one message. Those of incarnations that are past change nothing."""
        self._notice_own_pause(now)
        if self._is_of_a_stranger(message):
            return
        match message:
            case LoadReport():
                self._apply_report(message, now)
            case EngineGoodbye():
                self._take_death(
                    EngineDeath(
                        message.rank,
                        message.incarnation,
                        message.cause,
                        fault=not message.drained,
                        flight=message.flight,
                    ),
                    now,
                )
            case FrontendHello():
                self._apply_hello(message, now)
            case FrontendReport():
                self._apply_frontend_report(message, now)
            case ProcessStarted():
                process = self._process(message.role, message.index, message.incarnation, now)
                self._started[message.role, message.index] = message.incarnation
                if process is not None:
                    process.pid = message.pid
            case ProcessExited(Role.ENGINE, rank, incarnation, cause, fault, flight):
                self._take_death(EngineDeath(rank, incarnation, cause, fault, flight), now)
            case ProcessExited():
                process = self._process(message.role, message.index, message.incarnation, now)
                if process is not None:
                    self._bury(process, message.cause, message.fault)
            case DesiredState():
                self._apply_desired(message, now)
            case BlockEvents():
                pass  # passed on as it is by the coordinator; no state is kept of it

    def are_to_be_relayed(self, events: BlockEvents) -> bool:
        """Whether frontends may believe these: they are of the newest start of an engine that lives."""
        if self._is_of_a_stranger(events) or not self._has_place(self._engine_places, events.rank):
            return False
        known = self._engines.get(events.rank)
        return known is None or (known.incarnation == events.incarnation and not known.is_dead)

    def _is_of_a_stranger(self, message: ToCoordinator) -> bool:
        """Whether it speaks for an incarnation that the launcher has not started yet."""
        match message:
            case (
                LoadReport(rank, incarnation)
                | BlockEvents(rank, incarnation)
                | EngineGoodbye(rank, incarnation)
            ):
                newest = self._started.get((Role.ENGINE, rank), incarnation)
            case FrontendHello(_, index, incarnation) | FrontendReport(index, incarnation):
                newest = self._started.get((Role.FRONTEND, index), incarnation)
            case _:
                return False
        return incarnation > newest

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
        if self._convictions.merge(report.convictions, now):
            self.is_urgent = True

    def _apply_desired(self, desired: DesiredState, now: float) -> None:
        size = (desired.engines, desired.frontends)
        if (desired.draining, size) != (self._draining, self._size):
            self._draining, self._size = desired.draining, size
            _keep_below(desired.engines, self._engines)
            _keep_below(desired.frontends, self._frontends)
            self.is_changed = self.is_urgent = True
        for death in desired.deaths:
            self._take_death(death, now)
        for entry in desired.processes:
            self._reconcile(entry, now)

    def _reconcile(self, entry: ProcessEntry, now: float) -> None:
        """Learn what a lost or earlier message would have said."""
        self._started[entry.role, entry.index] = entry.incarnation
        self._forget_made_up(entry)
        process = self._process(entry.role, entry.index, entry.incarnation, now)
        if process is None:
            return
        if not entry.alive:
            self._bury(process, entry.cause, entry.fault)
        if process.is_draining != entry.draining:
            process.is_draining = entry.draining
            self.is_changed = self.is_urgent = True
        process.pid, process.restarts = entry.pid, entry.restarts
        if isinstance(process, EngineRecord):
            process.parked = entry.parked

    def _forget_made_up(self, entry: ProcessEntry) -> None:
        """What spoke as a newer incarnation before the launcher had told was a stranger."""
        records: dict[int, EngineRecord] | dict[int, FrontendRecord]
        match entry.role:
            case Role.ENGINE:
                records = self._engines
            case Role.FRONTEND:
                records = self._frontends
            case Role.COORDINATOR:
                return
        known = records.get(entry.index)
        if known is not None and known.incarnation > entry.incarnation:
            del records[entry.index]

    def _take_death(self, death: EngineDeath, now: float) -> None:
        """Also of an incarnation that is past: a frontend may still wait for the cause."""
        if not self._has_place(self._engine_places, death.rank):
            return
        if self._obituaries.add(death, now):
            self.is_changed = self.is_urgent = True
        engine = self._engine(death.rank, death.incarnation, now)
        if engine is not None:
            self._bury(engine, death.cause, death.fault)

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
        return self._newest(
            self._engines, EngineRecord, self._engine_places, rank, incarnation, now
        )

    @property
    def _engine_places(self) -> int | None:
        return self._size[0] if self._size is not None else None

    def _has_place(self, places: int | None, place: int) -> bool:
        return places is None or 0 <= place < places

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
        if not self._has_place(size, place):
            return None
        known = records.get(place)
        if known is not None and known.incarnation > incarnation:
            return None
        if known is None or known.incarnation < incarnation:
            successor = records[place] = make(place, incarnation, now)
            if known is not None:
                # Until the launcher says how many there are now.
                successor.restarts = known.restarts
            self.is_changed = self.is_urgent = True
            return successor
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
            assert engine.report is not None
            cause = engine_verdict(
                engine.report, now - engine.heard_at, self._config.hang_timeout, self._awake(now)
            )
            if cause is not None:
                flight = self._read_flight(engine.index, engine.incarnation)
                self._take_death(
                    EngineDeath(engine.index, engine.incarnation, cause, True, flight), now
                )
        for frontend in self._frontends.values():
            silence = now - frontend.heard_at
            limit = FRONTEND_HANG_TIMEOUTS * self._config.hang_timeout
            if frontend.is_serving and silence > limit:
                self._bury(frontend, silent(silence), fault=True)

    def _awake(self, now: float) -> float:
        """For how long this process has run without a pause of its own."""
        return now - self._resumed_at if self._resumed_at is not None else math.inf

    def _notice_own_pause(self, now: float) -> None:
        pause = now - self._looked_at
        self._looked_at = now
        if pause > OWN_PAUSE_SECONDS:
            self._resumed_at = now
            for process in (*self._engines.values(), *self._frontends.values()):
                process.heard_at += pause

    def _state(self, engine: EngineRecord, now: float) -> EngineState:
        if engine.is_dead:
            return EngineState.DEAD
        if engine.is_draining:
            return EngineState.DRAINING  # before all others: they may be followed by new work
        if not engine.is_serving:
            return EngineState.STARTING
        if now - engine.heard_at > self._config.suspect_after:
            return EngineState.SUSPECT
        return EngineState.READY

    # ── views out ──

    def view(self, now: float) -> ClusterView:
        """The whole cluster as it is now; a newer view than all before."""
        self._view_seq += 1
        self.is_changed = self.is_urgent = False
        num_engines, num_frontends = self._size or (0, 0)
        return ClusterView(
            coordinator_incarnation=self._incarnation,
            view_seq=self._view_seq,
            draining=self._draining,
            engines=[
                engine.entry(self._state(engine, now), now)
                for _, engine in sorted(self._engines.items())
            ],
            frontends=[frontend.entry() for _, frontend in sorted(self._frontends.items())],
            num_engines=num_engines,
            num_frontends=num_frontends,
            deaths=self._obituaries.told(now),
            convictions=self._convictions.left(now),
        )


def _keep_below(number: int, records: dict[int, EngineRecord] | dict[int, FrontendRecord]) -> None:
    """Forget places that the cluster does not have: whoever reported from there is a stranger."""
    for index in [index for index in records if not 0 <= index < number]:
        del records[index]
