"""Whether an operation may begin, told from what the processes are doing. Pure."""

from collections.abc import Sequence

from cluster.errors import ControlError, OperationConflict
from cluster.launch.managed_process import DRAINED, ManagedProcess
from cluster.launch.operation import Drain, Operation, Restart, Scale


def check_operation(
    operation: Operation, engines: Sequence[ManagedProcess], frontends: Sequence[ManagedProcess]
) -> None:
    """Raises ControlError if it names what is not there, OperationConflict if it would end service."""
    match operation:
        case Drain(rank, _, is_forced):
            engine = _find(engines, rank, "drain", "engine")
            if engine.phase == DRAINED or is_forced:
                return
            if not any(is_serving(other) for other in engines if other is not engine):
                raise OperationConflict(
                    f"drain engine {rank}: no other engine serves, so every request would wait; "
                    "force does it all the same"
                )
        case Restart(engine=int(rank)):
            _find(engines, rank, "restart", "engine")
        case Restart(frontend=int(index)):
            _find(frontends, index, "restart", "frontend")
        case Restart():
            pass
        case Scale():
            _check_that_some_stay(operation.engines, engines, "engines")
            _check_that_some_stay(operation.frontends, frontends, "frontends")


def is_serving(process: ManagedProcess) -> bool:
    """Whether it does its work, and is to go on doing it."""
    return process.is_ready and not process.is_draining


def _find(processes: Sequence[ManagedProcess], index: int, verb: str, field: str) -> ManagedProcess:
    if index >= len(processes):
        raise ControlError(
            f"{verb}: {field} must be from 0 to {len(processes) - 1}, not {index}: there are "
            f"{len(processes)}"
        )
    return processes[index]


def _check_that_some_stay(
    number: int | None, processes: Sequence[ManagedProcess], field: str
) -> None:
    if number is None or number >= len(processes):
        return
    if not any(is_serving(process) for process in processes[:number]):
        raise OperationConflict(
            f"scale: {field} cannot be {number} now: none of the {number} that would stay serves"
        )
