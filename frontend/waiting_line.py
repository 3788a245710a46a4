"""The requests that no engine has, in the order in which engines get them."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from frontend.in_flight import InFlight


class WaitingLine:
    """First come first served, but those that have begun before all others. Leaving it is cheap."""

    def __init__(self) -> None:
        self._line: OrderedDict[str, InFlight] = OrderedDict()

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[InFlight]:
        return iter(list(self._line.values()))

    def join(self, in_flight: InFlight) -> None:
        """Wait behind all others."""
        self._line[in_flight.request.request_id] = in_flight

    def join_first(self, requests: Sequence[InFlight]) -> None:
        """Wait before all others, in the order given."""
        for in_flight in reversed(requests):
            self.join(in_flight)
            self._line.move_to_end(in_flight.request.request_id, last=False)

    def leave(self, in_flight: InFlight) -> None:
        """Wait no longer; harmless for a request that does not."""
        self._line.pop(in_flight.request.request_id, None)

    def serve(self, dispatch: Callable[[InFlight], bool]) -> None:
        """Offer each in turn to `dispatch`; those that it sends have left."""
        for in_flight in self:
            if dispatch(in_flight):
                self.leave(in_flight)
