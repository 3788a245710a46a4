"""The requests that no frontend is to take, gathered from all of them. Pure; takes `now`."""

from collections.abc import Iterable

from cluster.wire.messages import Conviction

MAX_CONVICTIONS = 1000


class Convictions:
    """Each for as long as the frontend that knows best said, whether that frontend lives or not."""

    def __init__(self) -> None:
        self._until: dict[bytes, float] = {}
        self._deaths: dict[bytes, list[tuple[int, int]]] = {}

    def merge(self, convictions: Iterable[Conviction], now: float) -> bool:
        """Take in what a frontend tells; whether there is a new one among them."""
        has_new = False
        for conviction in convictions:
            if not conviction.seconds_left > 0:
                continue
            known = self._until.get(conviction.fingerprint)
            has_new = has_new or known is None
            until = now + conviction.seconds_left
            self._until[conviction.fingerprint] = max(until, known or until)
            self._deaths[conviction.fingerprint] = conviction.deaths
        while len(self._until) > MAX_CONVICTIONS:
            del self._until[min(self._until, key=self._until.__getitem__)]
        return has_new

    def left(self, now: float) -> list[Conviction]:
        """Those that still hold, with the time they have left."""
        self._until = {key: until for key, until in self._until.items() if until > now}
        self._deaths = {key: self._deaths[key] for key in self._until}
        return [
            Conviction(key, until - now, self._deaths[key]) for key, until in self._until.items()
        ]
