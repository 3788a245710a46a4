"""What the coordinator knows of one process: its newest incarnation, and the verdict on it."""

from dataclasses import dataclass

from cluster.wire.messages import (
    EngineEntry,
    EnginePhase,
    EngineState,
    FrontendEntry,
    LoadReport,
)


@dataclass(slots=True)
class ProcessRecord:
    """The newest incarnation of one process."""

    index: int
    incarnation: int
    heard_at: float
    is_dead: bool = False
    is_draining: bool = False
    cause: str = ""
    fault: bool = False
    restarts: int = 0
    pid: int = 0


@dataclass(slots=True)
class EngineRecord(ProcessRecord):
    """One engine's newest incarnation; its index is its rank."""

    report: LoadReport | None = None
    parked: bool = False

    @property
    def is_serving(self) -> bool:
        """Whether it has finished starting, by its own word."""
        return self.report is not None and self.report.phase >= EnginePhase.READY

    def entry(self, state: EngineState, now: float) -> EngineEntry:
        """What a view says of it."""
        return EngineEntry(
            self.index,
            self.incarnation,
            state,
            cause=self.cause,
            fault=self.fault,
            report=self.report,
            report_age_seconds=now - self.heard_at,
            restarts=self.restarts,
            pid=self.pid,
            parked=self.parked,
        )


@dataclass(slots=True)
class FrontendRecord(ProcessRecord):
    """One frontend's newest incarnation."""

    requests_address: str = ""
    outputs_address: str = ""
    in_flight: int = 0
    queued: int = 0

    @property
    def is_serving(self) -> bool:
        """Whether it has said hello."""
        return bool(self.requests_address)

    def entry(self) -> FrontendEntry:
        """What a view says of it."""
        return FrontendEntry(
            self.index,
            self.incarnation,
            alive=not self.is_dead,
            requests_address=self.requests_address,
            outputs_address=self.outputs_address,
            in_flight=0 if self.is_dead else self.in_flight,
            queued=0 if self.is_dead else self.queued,
            restarts=self.restarts,
            pid=self.pid,
            cause=self.cause,
            fault=self.fault,
            draining=self.is_draining,
        )
