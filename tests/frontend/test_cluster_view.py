import pytest

from cluster.wire.messages import (
    PROTOCOL_VERSION,
    ClusterView,
    EngineDeath,
    EngineEntry,
    EngineHello,
    EnginePhase,
    EngineState,
    FlightRecord,
    FrontendEntry,
    LoadReport,
)
from frontend.cluster_view import OBITUARY_SECONDS, EngineCounts, LiveView


def hello(rank: int = 0, incarnation: int = 1) -> EngineHello:
    return EngineHello(PROTOCOL_VERSION, rank, incarnation, "model", 1024, 16, 100, 8, "seed")


def entry(state: EngineState, rank: int = 0, incarnation: int = 1, age: float = 0.0) -> EngineEntry:
    report = LoadReport(rank, incarnation, 1, EnginePhase.READY, waiting=3)
    return EngineEntry(rank, incarnation, state, "SIGKILL", False, report, age)


def cluster(*engines: EngineEntry, draining: bool = False) -> ClusterView:
    frontends = [FrontendEntry(0, 1, True), FrontendEntry(1, 1, True), FrontendEntry(2, 1, False)]
    return ClusterView(1, 1, draining, list(engines), frontends)


@pytest.fixture
def view() -> LiveView:
    live = LiveView(frontend=(0, 1), suspect_after_seconds=1.0, now=0.0)
    live.welcome(hello(), 0.0)
    return live


def ranks(view: LiveView, now: float) -> list[int]:
    return [load.rank for load in view.routing_view(now).loads]


def test_an_engine_that_said_hello_may_be_chosen(view: LiveView) -> None:
    assert ranks(view, 0.0) == [0]


@pytest.mark.parametrize("state", [EngineState.SUSPECT, EngineState.DRAINING])
def test_a_suspect_or_draining_engine_gets_nothing_new(view: LiveView, state: EngineState) -> None:
    assert view.apply(cluster(entry(state)), 0.1) == []
    assert ranks(view, 0.1) == []
    view.apply(cluster(entry(EngineState.READY)), 0.2)
    assert ranks(view, 0.2) == [0]


def test_a_death_is_told_once_and_believed_for_good(view: LiveView) -> None:
    dead = cluster(entry(EngineState.DEAD))
    assert view.apply(dead, 0.1) == [EngineDeath(0, 1, "SIGKILL", False)]
    assert view.apply(dead, 0.2) == []
    assert not view.is_current(0, 1)
    assert view.welcome(hello(), 0.3) is None
    assert not view.is_current(0, 1)


def test_a_new_incarnation_takes_the_place_of_the_dead(view: LiveView) -> None:
    view.apply(cluster(entry(EngineState.DEAD)), 0.1)
    assert view.welcome(hello(incarnation=2), 0.3) is None
    assert view.is_current(0, 2)


def test_a_hello_of_a_newer_incarnation_is_the_death_of_the_older(view: LiveView) -> None:
    death = view.welcome(hello(incarnation=2), 0.3)
    assert death is not None
    assert (death.rank, death.incarnation) == (0, 1)
    assert view.welcome(hello(incarnation=1), 0.3) is None
    assert view.is_current(0, 2)


def test_a_second_hello_means_that_our_requests_are_lost_there(view: LiveView) -> None:
    death = view.welcome(hello(), 0.3)
    assert death is not None
    assert death.incarnation == 1
    assert view.is_current(0, 1)


def test_a_view_that_knows_a_newer_incarnation_ends_the_older(view: LiveView) -> None:
    deaths = view.apply(cluster(entry(EngineState.STARTING, incarnation=2)), 0.1)
    assert [death.incarnation for death in deaths] == [1]


def test_a_view_that_is_behind_changes_nothing(view: LiveView) -> None:
    view.welcome(hello(incarnation=2), 0.3)
    assert view.apply(cluster(entry(EngineState.DEAD, incarnation=1)), 0.1) == []
    assert view.is_current(0, 2)


def test_a_new_coordinator_that_knows_nobody_yet_takes_nobody_away(view: LiveView) -> None:
    assert view.apply(cluster(), 0.1) == []
    assert ranks(view, 0.1) == [0]


def test_reports_of_a_view_are_as_old_as_it_says(view: LiveView) -> None:
    view.apply(cluster(entry(EngineState.READY, age=0.25)), 1.0)
    load = view.routing_view(1.0).loads[0]
    assert load.report_age_seconds == pytest.approx(0.25)
    assert load.report is not None
    assert load.report.waiting == 3


def test_only_living_frontends_are_counted(view: LiveView) -> None:
    view.apply(cluster(entry(EngineState.READY)), 0.1)
    assert view.routing_view(0.1).num_frontends == 2


def test_a_closed_connection_is_suspect_and_no_death_while_the_coordinator_watches(
    view: LiveView,
) -> None:
    view.set_reachable(0, False, 0.1)
    view.apply(cluster(entry(EngineState.READY)), 5.0)
    assert view.expire(5.1) == []
    assert ranks(view, 5.1) == []
    view.set_reachable(0, True, 5.2)
    assert ranks(view, 5.2) == [0]


def test_without_a_coordinator_a_closed_connection_and_silence_are_a_death(view: LiveView) -> None:
    view.apply(cluster(entry(EngineState.READY)), 0.0)
    view.set_reachable(0, False, 2.0)
    assert view.expire(2.9) == []
    assert view.expire(3.1) == [EngineDeath(0, 1, "connection lost", False)]


def test_without_a_coordinator_an_idle_engine_still_gets_work(view: LiveView) -> None:
    assert ranks(view, 100.0) == [0]
    view.books[0].dispatch("r", 10)
    assert ranks(view, 100.0) == []  # it owes us outputs, and none come


def test_the_views_word_on_draining_is_kept(view: LiveView) -> None:
    view.apply(cluster(draining=True), 0.1)
    assert view.is_draining


def test_all_engines_are_dead_only_while_none_is_starting(view: LiveView) -> None:
    told = [view.are_all_engines_dead]
    for state, incarnation in ((EngineState.DEAD, 1), (EngineState.STARTING, 2)):
        view.apply(cluster(entry(state, incarnation=incarnation)), 0.1)
        told.append(view.are_all_engines_dead)
    assert told == [False, True, False]


def test_the_fault_of_a_later_incarnation_is_not_that_of_the_one_before(view: LiveView) -> None:
    report = LoadReport(0, 2, 1, EnginePhase.READY)
    later = EngineEntry(0, 2, EngineState.DEAD, "exit code 1", True, report)
    assert view.apply(cluster(later), 0.1) == [EngineDeath(0, 1, "replaced", fault=False)]


# ── obituaries ──

CRASH = EngineDeath(0, 1, "SIGSEGV", True, FlightRecord(["a"], ["a"]))


def told(*deaths: EngineDeath, engines: tuple[EngineEntry, ...] = ()) -> ClusterView:
    return ClusterView(1, 1, False, list(engines), [], deaths=list(deaths))


def test_an_obituary_is_the_death_with_its_record_and_is_told_once(view: LiveView) -> None:
    dead = told(CRASH, engines=(entry(EngineState.DEAD),))
    assert view.apply(dead, 0.1) == [CRASH]
    assert view.apply(dead, 0.2) == []


def test_the_true_cause_is_known_even_if_only_the_successor_was_seen(view: LiveView) -> None:
    successor = told(CRASH, engines=(entry(EngineState.STARTING, incarnation=2),))
    assert view.apply(successor, 0.1) == [CRASH]
    assert not view.unexplained


@pytest.mark.parametrize("way", ["successor's hello", "successor in the view", "connection lost"])
def test_a_death_without_a_cause_is_explained_once_by_a_late_obituary(
    view: LiveView, way: str
) -> None:
    match way:
        case "successor's hello":
            deaths = [view.welcome(hello(incarnation=2), 5.0)]
        case "successor in the view":
            deaths = [*view.apply(told(engines=(entry(EngineState.STARTING, incarnation=2),)), 5.0)]
        case _:
            view.set_reachable(0, False, 2.0)
            deaths = [*view.expire(5.0)]
    assert [death is not None and death.fault for death in deaths] == [False]
    assert view.unexplained == {(0, 1): 5.0}
    assert view.apply(told(CRASH), 6.0) == [CRASH]
    assert view.apply(told(CRASH), 6.1) == []
    assert not view.unexplained


def test_an_obituary_is_waited_for_no_longer_than_one_may_come(view: LiveView) -> None:
    view.welcome(hello(incarnation=2), 0.0)
    view.expire(OBITUARY_SECONDS - 1)
    assert view.unexplained
    view.expire(OBITUARY_SECONDS)
    assert view.apply(told(CRASH), OBITUARY_SECONDS) == []


def test_the_size_of_the_cluster_is_the_views_word_once_there_is_one() -> None:
    live = LiveView((0, 1), 1.0, 0.0, configured_engines=4)
    assert live.counts(0.0) == EngineCounts(total=4)
    parked = EngineEntry(2, 3, EngineState.DEAD, parked=True)
    leaving = EngineEntry(1, 1, EngineState.DRAINING)
    live.apply(ClusterView(1, 1, False, [leaving, parked], [], num_engines=3), 0.1)
    live.welcome(hello(), 0.1)
    live.welcome(hello(rank=1), 0.1)
    assert live.counts(0.2) == EngineCounts(total=3, ready=1, draining=1, parked=1)
