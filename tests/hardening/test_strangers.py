"""Whoever speaks in the name of a process that the launcher has not started is not believed."""

from cluster.config import CoordinatorConfig
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    ClusterView,
    DesiredState,
    EngineEntry,
    EngineGoodbye,
    EnginePhase,
    EngineState,
    FrontendHello,
    LoadReport,
    ProcessEntry,
    ProcessStarted,
    Role,
)
from coordinator.cluster_state import ClusterState
from frontend.cluster_view import LiveView

NOW = 100.0
FAR_TOO_NEW = 2**50


def coordinator() -> ClusterState:
    return ClusterState(CoordinatorConfig(), 1, NOW, lambda *_: None)


def incarnations(state: ClusterState) -> list[int]:
    return [entry.incarnation for entry in state.view(NOW).engines]


def desired() -> DesiredState:
    engine = ProcessEntry(Role.ENGINE, 0, 1, pid=7, alive=True)
    own = ProcessEntry(Role.COORDINATOR, 0, 1, pid=8, alive=True)
    return DesiredState(1, 1, draining=False, processes=[engine, own])


def test_an_incarnation_that_was_not_started_changes_nothing() -> None:
    state = coordinator()
    state.apply(ProcessStarted(Role.ENGINE, 0, 1, pid=7), NOW)
    state.apply(LoadReport(0, FAR_TOO_NEW, 1, EnginePhase.READY), NOW)
    state.apply(EngineGoodbye(0, FAR_TOO_NEW, drained=False, reason="made up"), NOW)
    state.apply(LoadReport(0, 1, 1, EnginePhase.READY), NOW)
    assert incarnations(state) == [1]
    assert state.view(NOW).engines[0].state is EngineState.READY


def test_one_that_spoke_before_the_launcher_is_forgotten_at_its_word() -> None:
    state = coordinator()
    state.apply(LoadReport(0, FAR_TOO_NEW, 1, EnginePhase.READY), NOW)
    state.apply(FrontendHello(PROTOCOL_VERSION, 0, 3, "ipc:///a", "ipc:///b"), NOW)
    state.apply(desired(), NOW)
    assert incarnations(state) == [1]
    assert [f.incarnation for f in state.view(NOW).frontends] == [3], "of it nothing was told"


def test_the_next_incarnation_is_believed_once_it_is_started() -> None:
    state = coordinator()
    state.apply(desired(), NOW)
    state.apply(ProcessStarted(Role.ENGINE, 0, 2, pid=9), NOW)
    state.apply(LoadReport(0, 2, 1, EnginePhase.READY), NOW)
    assert incarnations(state) == [2]


def test_a_frontend_waits_for_the_coordinators_word_on_who_greets_it() -> None:
    live = LiveView((0, 1), 1.0, NOW)
    assert live.is_announced(0, 5, NOW), "before any view, and without a coordinator, all are"
    live.apply(ClusterView(1, 1, False, [EngineEntry(0, 1, EngineState.READY)], []), NOW)
    assert live.is_announced(0, 1, NOW)
    assert not live.is_announced(0, FAR_TOO_NEW, NOW)
    assert not live.is_announced(1, 1, NOW)
    assert live.is_announced(0, 2, NOW + 5), "the coordinator is away"
