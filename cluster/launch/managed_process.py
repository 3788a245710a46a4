"""What the launcher knows of one process over all its starts."""

import asyncio
from dataclasses import dataclass, field

from cluster.launch.child import Child
from cluster.launch.exit_cause import ExitCause
from cluster.launch.plan import ProcessSpec
from cluster.launch.process_log import ProcessLog
from cluster.launch.restart_policy import RestartPolicy
from cluster.launch.status import ProcessStatus
from cluster.wire.messages import LoadReport, ProcessEntry

READY = "ready"
DRAINING = "draining"
DRAINED = "drained"


@dataclass(eq=False)
class ManagedProcess:
    """One place in the cluster, and whichever incarnation fills it now."""

    spec: ProcessSpec
    policy: RestartPolicy
    log: ProcessLog
    incarnation: int = 0
    restarts: int = 0
    child: Child | None = None
    pid: int = 0
    started_at: float = 0.0
    phase: str = "not started"
    """What it is doing, in a word: starting, loading, ready, suspect, restarting, parked …"""
    progress: float = 0.0
    """Share of the phase that is done, where that is known."""
    is_loaded: bool = False
    """Whether this incarnation has become ready, if only once."""
    was_ready: bool = False
    """Whether any incarnation ever has."""
    is_stopping: bool = False
    """Whether its end is wanted."""
    is_draining: bool = False
    """Whether it is being taken out of service, or is out of it: it gets no new work, and when it has
    ended it stays so."""
    is_idle: bool = False
    """Whether a draining engine has said, since it gets no new work, that it has none left."""
    drain_began_at_report: int | None = None
    """The report in the first view that calls it draining: it may be older than its last work."""
    planned_cause: str = ""
    """What its end is called if it comes in good order, where that was planned."""
    verdict: ExitCause | None = None
    """Why this incarnation is being killed, if it is."""
    last_exit: ExitCause | None = None
    return_code: int | None = None
    """Of the newest incarnation, once it has ended."""
    parked: bool = False
    report: LoadReport | None = None
    """An engine's newest load report."""
    restart: asyncio.TimerHandle | None = None
    """The start to come, where one is planned."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no incarnation is alive."""

    def __post_init__(self) -> None:
        self.ended.set()

    @property
    def name(self) -> str:
        """Its name for people, e.g. `engine 3`."""
        return self.spec.name

    @property
    def is_alive(self) -> bool:
        """Whether its current incarnation runs."""
        return self.child is not None and self.child.is_alive

    @property
    def is_ready(self) -> bool:
        """Whether it does its work now."""
        return self.is_alive and self.phase == READY

    def mark_ready(self) -> None:
        """This incarnation does its work now."""
        self.phase = READY
        self.is_loaded = self.was_ready = True

    def take_report(self, report: LoadReport | None) -> None:
        """Its newest load report, after its phase was brought up to date."""
        self.report = report
        if report is None or self.phase != DRAINING:
            self.is_idle, self.drain_began_at_report = False, None
        elif self.drain_began_at_report is None:
            self.drain_began_at_report = report.report_seq
        elif report.report_seq > self.drain_began_at_report:
            self.is_idle = report.running + report.waiting == 0

    def return_to_service(self) -> None:
        """Let it run again, as if it had never died."""
        self.cancel_restart()
        self.is_stopping = self.is_draining = self.parked = False
        self.policy.forgive()

    def let_end(self) -> None:
        """Its end is wanted, and nothing is to follow it."""
        self.is_stopping = True
        self.cancel_restart()

    def cancel_restart(self) -> None:
        """Let no further incarnation start."""
        if self.restart is not None:
            self.restart.cancel()
            self.restart = None

    def begin(self, now: float) -> None:
        """A new incarnation is about to be spawned."""
        self.incarnation += 1
        self.started_at = now
        self.phase, self.progress, self.report = "starting", 0.0, None
        self.verdict = self.return_code = self.restart = None
        self.planned_cause = ""
        self.is_loaded = self.parked = self.is_idle = False
        self.drain_began_at_report = None
        self.policy.started(now)

    def end(self, cause: ExitCause, return_code: int | None) -> None:
        """The incarnation has ended."""
        self.last_exit, self.return_code = cause, return_code
        self.phase = DRAINED if self.is_draining else "ended"
        self.progress, self.report = 0.0, None
        self.ended.set()

    def entry(self) -> ProcessEntry:
        """What the coordinator is told of it; a cause only where the incarnation has ended."""
        ending = None if self.is_alive else self.last_exit
        return ProcessEntry(
            self.spec.role,
            self.spec.index,
            self.incarnation,
            self.pid,
            self.is_alive,
            cause=ending.text if ending else "",
            fault=ending.fault if ending else False,
            restarts=self.restarts,
            parked=self.parked,
            draining=self.is_draining,
        )

    def status(self, now: float, command_line: list[str]) -> ProcessStatus:
        """What `cluster status` shows of it."""
        report = self.report
        return ProcessStatus(
            role=self.spec.role.name.lower(),
            index=self.spec.index,
            name=self.name,
            incarnation=self.incarnation,
            pid=self.pid if self.is_alive else 0,
            state=self.phase,
            restarts=self.restarts,
            uptime_seconds=now - self.started_at if self.is_alive else 0.0,
            command=command_line,
            environment=self.spec.environment,
            log=str(self.log.path),
            last_exit=self.last_exit.text if self.last_exit else "",
            progress=self.progress,
            waiting=report.waiting if report else None,
            running=report.running if report else None,
            kv_cache_usage=report.used_blocks / max(1, report.total_blocks) if report else None,
        )
