"""What is told of the dead, for how long, and who may correct it."""

from cluster.wire.messages import EngineDeath, FlightRecord
from coordinator.obituaries import MAX_DEATHS, TOLD_SECONDS, Obituaries

FLIGHT = FlightRecord(["a", "b"], ["b"])


def test_a_death_is_told_with_its_age_and_for_ten_seconds() -> None:
    obituaries = Obituaries()
    assert obituaries.add(EngineDeath(0, 1, "SIGSEGV", fault=True, flight=FLIGHT), now=100.0)
    assert obituaries.told(104.0) == [EngineDeath(0, 1, "SIGSEGV", True, FLIGHT, 4.0)]
    assert obituaries.told(100.0 + TOLD_SECONDS) != []
    assert obituaries.told(100.1 + TOLD_SECONDS) == []


def test_the_first_cause_stays_and_a_missing_flight_record_is_added() -> None:
    obituaries = Obituaries()
    obituaries.add(EngineDeath(0, 1, "error: of its own", fault=True), 100.0)
    assert obituaries.add(EngineDeath(0, 1, "exit code 1", fault=False, flight=FLIGHT), 101.0)
    assert not obituaries.add(
        EngineDeath(0, 1, "SIGKILL", fault=False, flight=FlightRecord([])), 101.0
    )
    assert obituaries.told(101.0) == [EngineDeath(0, 1, "error: of its own", True, FLIGHT, 1.0)]


def test_an_unknown_cause_becomes_the_known_one() -> None:
    obituaries = Obituaries()
    obituaries.add(EngineDeath(0, 1, "", fault=False), 100.0)
    assert obituaries.add(EngineDeath(0, 1, "SIGSEGV", fault=True), 101.0)
    assert obituaries.told(101.0) == [EngineDeath(0, 1, "SIGSEGV", fault=True, age_seconds=1.0)]


def test_an_old_death_that_is_told_again_does_not_become_young() -> None:
    obituaries = Obituaries()
    assert obituaries.add(EngineDeath(0, 1, "SIGKILL", fault=False, age_seconds=9.0), 100.0)
    assert not obituaries.add(EngineDeath(1, 1, "SIGKILL", fault=False, age_seconds=10.5), 100.0)
    assert [death.rank for death in obituaries.told(100.5)] == [0]
    assert obituaries.told(101.5) == []


def test_the_oldest_come_first_and_are_left_out_first() -> None:
    obituaries = Obituaries()
    for rank in range(MAX_DEATHS + 5):
        obituaries.add(EngineDeath(rank, 1, "SIGKILL", fault=False), 100.0 + rank / 100)
    ranks = [death.rank for death in obituaries.told(101.0)]
    assert ranks == list(range(5, MAX_DEATHS + 5))
