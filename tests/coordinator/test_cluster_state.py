"""Events in, views out, with a clock that the tests turn."""

import pytest

from cluster.config import CoordinatorConfig
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    ClusterView,
    Conviction,
    DesiredState,
    EngineDeath,
    EngineEntry,
    EngineGoodbye,
    EnginePhase,
    EngineState,
    FlightRecord,
    FrontendHello,
    FrontendReport,
    LoadReport,
    ProcessEntry,
    ProcessExited,
    ProcessStarted,
    Role,
)
from coordinator.cluster_state import ClusterState


class Story:
    """A cluster state and its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.flights: dict[tuple[int, int], FlightRecord] = {}
        self.state = ClusterState(
            CoordinatorConfig(),
            incarnation=1,
            now=self.now,
            read_flight=lambda rank, incarnation: self.flights.get((rank, incarnation)),
        )
        self.report_seq = 0

    def report(self, rank: int = 0, incarnation: int = 1, **fields: object) -> None:
        self.report_seq += 1
        fields = {"phase": EnginePhase.READY, **fields}
        report = LoadReport(rank, incarnation, self.report_seq, **fields)  # type: ignore[arg-type]
        self.state.apply(report, self.now)

    def wait(self, seconds: float) -> None:
        """Time passes, and the coordinator looks at the clock all the while."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 0.05)
            self.state.expire(self.now)

    def view(self) -> ClusterView:
        return self.state.view(self.now)

    def engine(self, rank: int = 0) -> EngineEntry:
        return next(entry for entry in self.view().engines if entry.rank == rank)


@pytest.fixture
def story() -> Story:
    return Story()


def test_an_engine_is_starting_until_it_says_ready(story: Story) -> None:
    story.state.apply(ProcessStarted(Role.ENGINE, 0, 1, pid=77), story.now)
    assert (story.engine().state, story.engine().pid) == (EngineState.STARTING, 77)
    story.report(phase=EnginePhase.LOADING)
    assert story.engine().state is EngineState.STARTING
    story.report()
    assert story.engine().state is EngineState.READY


def test_a_slow_load_is_nobodys_death(story: Story) -> None:
    story.report(phase=EnginePhase.LOADING)
    story.wait(300)
    assert story.engine().state is EngineState.STARTING


def test_silence_makes_suspect_and_a_report_makes_ready_again(story: Story) -> None:
    story.report()
    story.wait(1.1)
    assert story.engine().state is EngineState.SUSPECT
    story.report()
    assert story.engine().state is EngineState.READY


def test_long_silence_is_death_for_good(story: Story) -> None:
    story.report()
    story.wait(3.2)
    assert story.engine().state is EngineState.DEAD
    assert story.engine().cause.startswith("silent:")
    story.report()
    assert story.engine().state is EngineState.DEAD


def test_a_new_incarnation_starts_afresh_and_the_old_one_is_not_heard(story: Story) -> None:
    story.report()
    story.wait(3.2)
    story.report(incarnation=2, waiting=5)
    story.report(incarnation=1, waiting=9)
    entry = story.engine()
    assert (entry.incarnation, entry.state) == (2, EngineState.READY)
    assert entry.report is not None
    assert entry.report.waiting == 5


def test_a_new_incarnation_does_not_hide_the_restarts_that_there_were(story: Story) -> None:
    entry = ProcessEntry(Role.ENGINE, 0, 4, pid=10, alive=True, restarts=3)
    story.state.apply(DesiredState(1, 1, draining=False, processes=[entry]), story.now)
    story.state.apply(ProcessStarted(Role.ENGINE, 0, 5, pid=11), story.now)
    assert (story.engine().incarnation, story.engine().restarts) == (5, 3)


def test_work_without_a_finished_step_is_a_hang(story: Story) -> None:
    story.report(running=1, seconds_since_step=2.9)
    story.state.expire(story.now)
    assert story.engine().state is EngineState.READY
    story.report(running=1, seconds_since_step=3.1)
    story.state.expire(story.now)
    assert story.engine().state is EngineState.DEAD
    assert story.engine().fault


def test_a_legal_long_step_is_no_hang(story: Story) -> None:
    story.report(running=1, seconds_since_step=9.0, predicted_step_seconds=1.0)
    story.state.expire(story.now)
    assert story.engine().state is EngineState.READY


def test_idleness_is_no_hang(story: Story) -> None:
    story.report(seconds_since_step=5000.0)
    story.state.expire(story.now)
    assert story.engine().state is EngineState.READY


def test_the_silence_while_we_ourselves_were_paused_proves_nothing(story: Story) -> None:
    story.report()
    story.now += 3600
    story.state.expire(story.now)
    assert story.engine().state is EngineState.READY


def test_an_exit_is_a_death_with_its_cause(story: Story) -> None:
    story.report()
    story.state.apply(ProcessExited(Role.ENGINE, 0, 1, "SIGKILL", fault=False), story.now)
    entry = story.engine()
    assert (entry.state, entry.cause, entry.fault) == (EngineState.DEAD, "SIGKILL", False)


def test_the_first_cause_of_death_stays(story: Story) -> None:
    story.report()
    story.state.apply(EngineGoodbye(0, 1, drained=False, reason="out of memory"), story.now)
    story.state.apply(ProcessExited(Role.ENGINE, 0, 1, "exit code 1", fault=True), story.now)
    assert story.engine().cause == "error: out of memory"


def test_an_old_report_does_not_replace_a_newer_one(story: Story) -> None:
    story.report(waiting=1)
    story.report(waiting=2)
    story.report_seq = 0
    story.report(waiting=3)
    report = story.engine().report
    assert report is not None
    assert report.waiting == 2


def test_a_new_coordinator_learns_all_from_one_round(story: Story) -> None:
    processes = [
        ProcessEntry(Role.ENGINE, 0, 4, pid=10, alive=True, restarts=3),
        ProcessEntry(Role.ENGINE, 1, 2, pid=11, alive=False, cause="SIGSEGV", fault=True),
        ProcessEntry(Role.FRONTEND, 0, 1, pid=12, alive=True),
    ]
    story.state.apply(DesiredState(2, 1, draining=False, processes=processes), story.now)
    story.report(rank=0, incarnation=4)
    story.state.apply(FrontendHello(PROTOCOL_VERSION, 0, 1, "ipc://r", "ipc://o"), story.now)
    story.state.apply(FrontendReport(0, 1, in_flight=7, queued=0), story.now)
    view = story.view()
    assert [(e.rank, e.incarnation, e.state, e.restarts) for e in view.engines] == [
        (0, 4, EngineState.READY, 3),
        (1, 2, EngineState.DEAD, 0),
    ]
    assert (view.frontends[0].requests_address, view.frontends[0].in_flight) == ("ipc://r", 7)


def test_a_frontends_successor_has_addresses_of_its_own(story: Story) -> None:
    story.state.apply(FrontendHello(PROTOCOL_VERSION, 0, 1, "ipc://r1", "ipc://o1"), story.now)
    story.state.apply(ProcessExited(Role.FRONTEND, 0, 1, "SIGKILL", fault=False), story.now)
    assert not story.view().frontends[0].alive
    story.state.apply(FrontendHello(PROTOCOL_VERSION, 0, 2, "ipc://r2", "ipc://o2"), story.now)
    entry = story.view().frontends[0]
    assert (entry.alive, entry.incarnation, entry.requests_address) == (True, 2, "ipc://r2")
    story.state.apply(FrontendHello(PROTOCOL_VERSION, 0, 1, "ipc://r1", "ipc://o1"), story.now)
    assert story.view().frontends[0].requests_address == "ipc://r2"


def test_deaths_and_drains_are_urgent_and_loads_are_not(story: Story) -> None:
    story.report()
    story.view()
    story.report(waiting=1)
    assert (story.state.is_changed, story.state.is_urgent) == (True, False)
    story.state.apply(ProcessExited(Role.ENGINE, 0, 1, "SIGKILL", fault=False), story.now)
    assert story.state.is_urgent
    story.view()
    story.state.apply(DesiredState(1, 1, draining=True, processes=[]), story.now)
    assert story.state.is_urgent
    assert story.view().draining


def test_a_frontend_that_falls_silent_is_dead_for_good_after_some_patience(story: Story) -> None:
    hello = FrontendHello(PROTOCOL_VERSION, 0, 1, "ipc://r", "ipc://o")
    story.state.apply(hello, story.now)
    story.state.apply(FrontendReport(0, 1, in_flight=7, queued=2), story.now)
    story.wait(8)
    assert story.view().frontends[0].alive
    story.state.apply(hello, story.now)
    story.wait(8)
    assert story.view().frontends[0].alive
    story.wait(1.2)
    entry = story.view().frontends[0]
    assert (entry.alive, entry.in_flight, entry.queued, entry.fault) == (False, 0, 0, True)
    assert entry.cause.startswith("silent:")
    story.state.apply(FrontendReport(0, 1, in_flight=7, queued=2), story.now)
    story.state.apply(hello, story.now)
    assert not story.view().frontends[0].alive


def test_a_frontend_that_is_slow_to_start_is_not_silent(story: Story) -> None:
    story.state.apply(ProcessStarted(Role.FRONTEND, 0, 1, pid=7), story.now)
    story.wait(300)
    assert story.view().frontends[0].alive


def test_our_own_pause_is_no_frontends_silence(story: Story) -> None:
    story.state.apply(FrontendHello(PROTOCOL_VERSION, 0, 1, "ipc://r", "ipc://o"), story.now)
    story.now += 3600
    story.state.expire(story.now)
    assert story.view().frontends[0].alive


def test_who_has_no_place_in_the_cluster_is_not_heard(story: Story) -> None:
    story.report(rank=7)
    story.state.apply(FrontendReport(9, 1, in_flight=1, queued=0), story.now)
    story.state.apply(DesiredState(2, 1, draining=False, processes=[]), story.now)
    for place in (-1, 2, 7, 2**60):
        story.report(rank=place)
        story.state.apply(FrontendReport(place, 1, in_flight=1, queued=0), story.now)
    story.report(rank=1)
    assert [entry.rank for entry in story.view().engines] == [1]
    assert story.view().frontends == []


def test_a_legal_long_prefill_whose_step_takes_minutes_is_no_hang(story: Story) -> None:
    for age in range(0, 200, 1):
        story.report(
            running=1, waiting=3, seconds_since_step=float(age), predicted_step_seconds=20.0
        )
        story.wait(0.25)
        assert story.engine().state is EngineState.READY


def test_a_compile_before_an_engine_is_ready_may_take_its_time_and_say_nothing(
    story: Story,
) -> None:
    story.report(phase=EnginePhase.WARMING_UP, running=1, seconds_since_step=1.0)
    story.wait(600)
    assert story.engine().state is EngineState.STARTING


def test_a_machine_that_was_suspended_in_the_middle_of_a_step_convicts_nobody(
    story: Story,
) -> None:
    story.report(running=1, seconds_since_step=0.1)
    story.now += 3600
    story.report(running=1, seconds_since_step=3600.1)
    story.state.expire(story.now)
    assert story.engine().state is EngineState.READY
    story.wait(0.5)
    story.report(running=1, seconds_since_step=0.0)
    story.wait(0.5)
    assert story.engine().state is EngineState.READY


def test_a_hang_is_found_after_a_suspension_as_well(story: Story) -> None:
    story.report(running=1, seconds_since_step=0.1)
    story.now += 3600
    for _ in range(7):
        story.report(running=1, seconds_since_step=3600.1)
        story.wait(0.5)
    assert story.engine().cause.startswith("hung: no step finished for 3.")


def test_a_verdict_of_ours_says_whom_the_engine_was_computing(story: Story) -> None:
    story.flights[0, 1] = FlightRecord(["a"], ["a"])
    story.report(running=1, seconds_since_step=3.1)
    story.state.expire(story.now)
    [death] = story.view().deaths
    assert (death.rank, death.incarnation, death.fault) == (0, 1, True)
    assert death.cause.startswith("hung:")
    assert death.flight == FlightRecord(["a"], ["a"])


def test_a_silent_engine_has_a_flight_record_too(story: Story) -> None:
    story.flights[0, 1] = FlightRecord(["a"])
    story.report()
    story.wait(3.2)
    [death] = story.view().deaths
    assert death.cause.startswith("silent:")
    assert death.flight == FlightRecord(["a"])


def test_the_death_of_an_incarnation_is_told_though_its_successor_is_known(story: Story) -> None:
    story.report(incarnation=2)
    story.view()
    flight = FlightRecord(["a"])
    story.state.apply(ProcessExited(Role.ENGINE, 0, 1, "SIGSEGV", True, flight), story.now)
    assert story.state.is_urgent
    view = story.view()
    assert view.deaths == [EngineDeath(0, 1, "SIGSEGV", True, flight)]
    assert view.engines[0].state is EngineState.READY


def test_a_goodbye_is_a_death_with_the_step_it_failed_in(story: Story) -> None:
    story.report()
    flight = FlightRecord(["a"], ["a"])
    goodbye = EngineGoodbye(0, 1, drained=False, reason="ValueError: x", flight=flight)
    story.state.apply(goodbye, story.now)
    story.state.apply(ProcessExited(Role.ENGINE, 0, 1, "exit code 1", fault=True), story.now)
    assert story.view().deaths == [EngineDeath(0, 1, "error: ValueError: x", True, flight)]


def test_a_new_coordinator_tells_of_the_deaths_that_the_launcher_remembers(story: Story) -> None:
    death = EngineDeath(1, 3, "SIGSEGV", True, FlightRecord(["a"]), age_seconds=2.0)
    processes = [ProcessEntry(Role.ENGINE, 1, 4, pid=11, alive=True)]
    desired = DesiredState(2, 1, draining=False, processes=processes, deaths=[death])
    story.state.apply(desired, story.now)
    story.wait(1.0)
    [told] = story.view().deaths
    assert (told.rank, told.incarnation, told.flight) == (1, 3, FlightRecord(["a"]))
    assert told.age_seconds == pytest.approx(3.0)
    story.state.apply(desired, story.now)
    assert story.view().deaths[0].age_seconds == pytest.approx(3.0)


def test_no_death_is_told_of_a_place_that_there_is_not(story: Story) -> None:
    story.state.apply(DesiredState(1, 1, draining=False, processes=[]), story.now)
    story.state.apply(ProcessExited(Role.ENGINE, 5, 1, "SIGSEGV", fault=True), story.now)
    story.state.apply(EngineGoodbye(-1, 1, drained=True), story.now)
    assert story.view().deaths == []


def test_draining_is_what_the_launcher_says_and_news_at_once(story: Story) -> None:
    story.report()
    story.view()
    entries = [
        ProcessEntry(Role.ENGINE, 0, 1, pid=1, alive=True, draining=True),
        ProcessEntry(Role.FRONTEND, 0, 1, pid=2, alive=True, draining=True),
    ]
    story.state.apply(DesiredState(1, 1, draining=False, processes=entries), story.now)
    assert story.state.is_urgent
    view = story.view()
    assert view.engines[0].state is EngineState.DRAINING
    assert view.frontends[0].draining
    assert not view.draining
    story.wait(1.5)
    assert story.engine().state is EngineState.DRAINING  # silent, but not to be chosen again
    story.wait(2.0)
    assert story.engine().state is EngineState.DEAD


def test_a_view_says_how_many_there_are_to_be(story: Story) -> None:
    assert (story.view().num_engines, story.view().num_frontends) == (0, 0)
    story.state.apply(DesiredState(3, 2, draining=False, processes=[]), story.now)
    assert (story.view().num_engines, story.view().num_frontends) == (3, 2)


def test_a_conviction_outlives_the_frontend_that_told_of_it(story: Story) -> None:
    convictions = [Conviction(b"poison", 100.0)]
    story.state.apply(FrontendReport(0, 1, 1, 0, convictions), story.now)
    assert story.state.is_urgent
    story.state.apply(ProcessExited(Role.FRONTEND, 0, 1, "SIGKILL", fault=False), story.now)
    story.wait(10)
    [left] = story.view().convictions
    assert left.fingerprint == b"poison"
    assert left.seconds_left == pytest.approx(90.0)
    story.wait(91)
    assert story.view().convictions == []
