"""Whose step is next, where some requests are to be computed alone."""

from collections.abc import Collection, Iterable, Iterator

from engine.request import Request


class StepTurns:
    """Steps of one isolated request each, in turn, alternate with steps of all the others.

    None stands for the others. However many are isolated, every second step is for the others, if
    they have anything to compute.
    """

    def __init__(self) -> None:
        self._to_isolate: set[str] = set()
        """Requests that came isolated, for as long as they are here: mostly none."""
        self.was_isolated = False
        """Whether the newest step was an isolated request's."""
        self._last_isolated: Request | None = None

    def add(self, request: Request) -> None:
        """A request has come."""
        if request.is_isolated:
            self._to_isolate.add(request.request_id)

    def remove(self, request: Request) -> None:
        """A request is gone."""
        self._to_isolate.discard(request.request_id)
        if self._last_isolated is request:
            self._last_isolated = None

    def in_order(
        self, running: Collection[Request], next_waiting: Request | None
    ) -> Iterator[Request | None]:
        """All that may have the next step, the one whose turn it is first."""
        if not self._to_isolate:
            return iter((None,))
        isolated = [request for request in running if request.is_isolated]
        if next_waiting is not None and next_waiting.is_isolated:
            isolated.append(next_waiting)
        return iter(self._rotated(isolated))

    def others(self, running: Iterable[Request]) -> list[Request]:
        """Those of these that are computed together."""
        if not self._to_isolate:
            return list(running)
        return [request for request in running if not request.is_isolated]

    def took(self, turn: Request | None) -> None:
        """The step is this one's."""
        self.was_isolated = turn is not None
        if turn is not None:
            self._last_isolated = turn

    def _rotated(self, isolated: list[Request]) -> Iterable[Request | None]:
        start = 0
        if self._last_isolated is not None and self._last_isolated in isolated:
            start = isolated.index(self._last_isolated) + 1
        in_turn = [*isolated[start:], *isolated[:start]]
        return [None, *in_turn] if self.was_isolated else [*in_turn, None]
