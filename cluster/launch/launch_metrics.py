"""The launcher's own metrics: which engines are up, and what was restarted why."""

from collections.abc import Iterable

from cluster.launch.managed_process import ManagedProcess
from cluster.telemetry.metrics import counter, gauge, withdraw
from cluster.wire.messages import Role


class LaunchMetrics:
    """Writes them into the files of this process."""

    def __init__(self) -> None:
        self._engine_up = gauge("engine_up")
        self._engine_incarnation = gauge("engine_incarnation")
        self._engine_parked = gauge("engine_parked")
        self._engine_draining = gauge("engine_draining")
        self._engine_restarts = counter("engine_restarts")
        self._process_restarts = counter("process_restarts")
        self._bad_frames = counter("wire_bad_frames").labels("launcher")

    def bad_frame(self) -> None:
        """Count frames that were no message."""
        self._bad_frames.inc()

    def show_engines(self, engines: Iterable[ManagedProcess]) -> None:
        """Set the gauges of every engine."""
        for engine in engines:
            label = str(engine.spec.index)
            self._engine_up.labels(label).set(engine.is_ready)
            self._engine_incarnation.labels(label).set(engine.incarnation)
            self._engine_parked.labels(label).set(engine.parked)
            self._engine_draining.labels(label).set(engine.is_draining)

    def forget_engine(self, rank: int) -> None:
        """Show nothing more of an engine that the cluster has no longer."""
        for metric in (
            self._engine_up,
            self._engine_incarnation,
            self._engine_parked,
            self._engine_draining,
        ):
            withdraw(metric.labels(str(rank)))

    def count_restart(self, process: ManagedProcess) -> None:
        """Count that a process that has died is started again."""
        assert process.last_exit is not None
        self._process_restarts.labels(process.spec.role.name.lower()).inc()
        if process.spec.role is Role.ENGINE:
            self._engine_restarts.labels(str(process.spec.index), process.last_exit.kind).inc()
