"""What a cluster view says about each process, in the launcher's words."""

from collections.abc import Iterable, Iterator

from cluster.launch.exit_cause import ExitCause
from cluster.launch.managed_process import DRAINING, ManagedProcess
from cluster.wire.messages import (
    ClusterView,
    EngineEntry,
    EnginePhase,
    EngineState,
    FrontendEntry,
    Role,
)

_STARTING_PHASES = {
    EnginePhase.STARTING: "starting",
    EnginePhase.LOADING: "loading",
    EnginePhase.WARMING_UP: "warming up",
}


def apply_view(
    view: ClusterView, processes: Iterable[ManagedProcess]
) -> Iterator[tuple[ManagedProcess, ExitCause]]:
    """Update each process by what the view says of its current incarnation.

    Yields the processes that are alive and declared dead, each with the verdict: they hang, or their
    end has been announced and does not come.
    """
    engines = {(entry.rank, entry.incarnation): entry for entry in view.engines}
    frontends = {(entry.index, entry.incarnation): entry for entry in view.frontends}
    for process in processes:
        if not process.is_alive:
            continue
        place = (process.spec.index, process.incarnation)
        match process.spec.role:
            case Role.COORDINATOR:
                process.mark_ready()
            case Role.FRONTEND:
                frontend = frontends.get(place)
                _apply_frontend(process, frontend)
                if frontend is not None and not frontend.alive:
                    yield process, ExitCause(frontend.cause, frontend.fault)
            case Role.ENGINE:
                engine = engines.get(place)
                _apply_engine(process, engine)
                if engine is not None and engine.state is EngineState.DEAD:
                    yield process, ExitCause(engine.cause, engine.fault)


def _apply_frontend(process: ManagedProcess, entry: FrontendEntry | None) -> None:
    if entry is None:
        return  # a new coordinator that has not heard of it yet
    if not entry.alive:
        process.phase = "dead"
    elif entry.requests_address:
        process.mark_ready()
        if entry.draining:
            process.phase = DRAINING


def _apply_engine(process: ManagedProcess, entry: EngineEntry | None) -> None:
    if entry is None or (process.is_loaded and entry.state is EngineState.STARTING):
        return  # a new coordinator that has not heard of it yet
    process.phase, process.progress = entry.state.name.lower(), 0.0
    process.take_report(entry.report)
    if entry.state is EngineState.STARTING and entry.report is not None:
        process.phase = _STARTING_PHASES.get(entry.report.phase, process.phase)
        process.progress = entry.report.progress
    is_serving = entry.report is not None and entry.report.phase is EnginePhase.READY
    if entry.state is EngineState.READY:
        process.mark_ready()
    elif entry.state is EngineState.DRAINING and is_serving:
        process.is_loaded = process.was_ready = True
