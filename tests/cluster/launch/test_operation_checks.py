"""Which operations may begin, given what the processes do."""

from pathlib import Path

import pytest

from cluster.errors import ControlError, OperationConflict
from cluster.launch.managed_process import DRAINED, ManagedProcess
from cluster.launch.operation import Drain, Operation, Restart, Scale
from cluster.launch.operation_checks import check_operation
from cluster.launch.plan import ProcessSpec
from cluster.launch.process_log import ProcessLog
from cluster.launch.restart_policy import RestartPolicy
from cluster.wire.messages import Role


def engine(tmp_path: Path, rank: int, phase: str) -> ManagedProcess:
    process = ManagedProcess(
        ProcessSpec(Role.ENGINE, rank, ("true",)),
        RestartPolicy(3, 60.0),
        ProcessLog(tmp_path / "log", lambda _: None),
    )
    process.phase = phase
    return process


def test_places_that_there_are_not_are_refused_with_those_that_there_are(tmp_path: Path) -> None:
    engines = [engine(tmp_path, rank, "starting") for rank in range(2)]
    refusals: list[tuple[Operation, str]] = [
        (Drain(2), "drain: engine must be from 0 to 1, not 2"),
        (Restart(engine=9), "restart: engine must be from 0 to 1, not 9"),
        (Restart(frontend=1), "restart: frontend must be from 0 to 0, not 1"),
    ]
    for operation, complaint in refusals:
        with pytest.raises(ControlError, match=complaint):
            check_operation(operation, engines, engines[:1])
    check_operation(Restart(engine=1), engines, [])
    check_operation(Restart(coordinator=True), engines, [])


def test_without_another_engine_that_serves_a_drain_needs_force(tmp_path: Path) -> None:
    engines = [engine(tmp_path, 0, "ready"), engine(tmp_path, 1, "starting")]
    with pytest.raises(OperationConflict, match="no other engine serves"):
        check_operation(Drain(0), engines, [])
    check_operation(Drain(0, force=True), engines, [])


def test_what_is_drained_already_may_be_drained(tmp_path: Path) -> None:
    check_operation(Drain(0), [engine(tmp_path, 0, DRAINED)], [])


def test_none_is_removed_for_one_that_does_not_serve(tmp_path: Path) -> None:
    engines = [engine(tmp_path, rank, "starting") for rank in range(2)]
    with pytest.raises(OperationConflict, match="none of the 1 that would stay serves"):
        check_operation(Scale(engines=1), engines, [])
    check_operation(Scale(engines=2), engines, [])
    check_operation(Scale(engines=3), engines, [])
