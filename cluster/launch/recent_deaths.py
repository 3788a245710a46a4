"""The engines' deaths of the last seconds, which a new coordinator is told. Pure; takes `now`."""

from collections import deque

from cluster.wire.messages import EngineDeath

REMEMBERED_SECONDS = 10.0
MAX_DEATHS = 32


class RecentDeaths:
    """The newest ones, each with when it was seen."""

    def __init__(self) -> None:
        self._deaths: deque[tuple[float, EngineDeath]] = deque(maxlen=MAX_DEATHS)

    def add(self, death: EngineDeath, now: float) -> None:
        """An engine has died just now."""
        self._deaths.append((now, death))

    def told(self, now: float) -> list[EngineDeath]:
        """Those that are to be told now, with their age, the oldest first."""
        while self._deaths and now - self._deaths[0][0] > REMEMBERED_SECONDS:
            self._deaths.popleft()
        return [
            EngineDeath(
                death.rank, death.incarnation, death.cause, death.fault, death.flight, now - died_at
            )
            for died_at, death in self._deaths
        ]
