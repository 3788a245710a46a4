"""What a new coordinator is told of the dead."""

from cluster.launch.recent_deaths import MAX_DEATHS, REMEMBERED_SECONDS, RecentDeaths
from cluster.wire.messages import EngineDeath, FlightRecord


def test_deaths_are_told_with_their_age_for_ten_seconds() -> None:
    deaths = RecentDeaths()
    flight = FlightRecord(["a"])
    deaths.add(EngineDeath(1, 2, "SIGSEGV", True, flight), now=100.0)
    assert deaths.told(103.0) == [EngineDeath(1, 2, "SIGSEGV", True, flight, 3.0)]
    assert deaths.told(100.1 + REMEMBERED_SECONDS) == []


def test_of_too_many_the_newest_are_told() -> None:
    deaths = RecentDeaths()
    for rank in range(MAX_DEATHS + 3):
        deaths.add(EngineDeath(rank, 1, "SIGKILL", fault=False), now=100.0)
    assert [death.rank for death in deaths.told(100.0)] == list(range(3, MAX_DEATHS + 3))
