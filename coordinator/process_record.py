"""What the coordinator knows of one process: its newest incarnation, and the verdict on it."""

from dataclasses import dataclass

from cluster.wire.messages import EnginePhase, LoadReport


@dataclass(slots=True)
class ProcessRecord:
    """The newest incarnation of one process."""

    index: int
    incarnation: int
    heard_at: float
    is_dead: bool = False
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
