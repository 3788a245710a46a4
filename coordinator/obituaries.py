"""Every death of an engine of the last seconds, so that nobody misses one. Pure; takes `now`."""

from dataclasses import dataclass

from cluster.wire.messages import EngineDeath, FlightRecord

TOLD_SECONDS = 10.0
"""For so long a death is repeated in every view."""

MAX_DEATHS = 64
"""More are not told at once: the oldest is left out first."""


@dataclass(slots=True)
class _Obituary:
    cause: str
    fault: bool
    flight: FlightRecord | None
    died_at: float


class Obituaries:
    """What is known of each death; several tell of it, and each may know something else."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Obituary] = {}

    def add(self, death: EngineDeath, now: float) -> bool:
        """Take in what somebody says of a death; whether that is news.

        The first cause is the true one, since a kill that follows a verdict is its effect. What the
        first did not know, a cause or a flight record, a later one may add.
        """
        if death.age_seconds > TOLD_SECONDS:
            return False
        place = (death.rank, death.incarnation)
        known = self._known.get(place)
        if known is None:
            died_at = now - max(0.0, death.age_seconds)
            self._known[place] = _Obituary(death.cause, death.fault, death.flight, died_at)
            self._forget_oldest()
            return True
        is_news = False
        if not known.cause and death.cause:
            known.cause, known.fault = death.cause, death.fault
            is_news = True
        if known.flight is None and death.flight is not None:
            known.flight = death.flight
            is_news = True
        return is_news

    def _forget_oldest(self) -> None:
        if len(self._known) > MAX_DEATHS:
            del self._known[min(self._known, key=lambda place: self._known[place].died_at)]

    def told(self, now: float) -> list[EngineDeath]:
        """Those that are to be told now, the oldest first."""
        self._known = {
            place: known
            for place, known in self._known.items()
            if now - known.died_at <= TOLD_SECONDS
        }
        return [
            EngineDeath(*place, known.cause, known.fault, known.flight, now - known.died_at)
            for place, known in sorted(self._known.items(), key=lambda item: item[1].died_at)
        ]
