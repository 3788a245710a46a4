"""The requests of one tenant that wait, in the order in which engines get them."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice

from frontend.in_flight import InFlight

TRIES_PER_OFFER = 16
"""How many of the foremost are offered before it is somebody else's turn."""
RETRIES_PER_OFFER = 4
"""The same for those that nobody took when it was their turn."""

Dispatch = Callable[[InFlight], bool]
"""Sends a request to an engine; False if none takes this one now."""

Queue = OrderedDict[str, InFlight]


class TenantLine:
    """First come first served, but nobody holds up those behind.

    A request that no engine takes steps aside, and is tried again in turn with others like it. Those
    pinned to one engine have a queue of their own: what one of them cannot have, none of them can.
    So an offer costs a few tries, however many wait.
    """

    def __init__(self) -> None:
        self._queues: dict[int | None, Queue] = {}
        """By the engine that they are pinned to; never empty ones."""
        self._aside: Queue = OrderedDict()

    def __len__(self) -> int:
        return len(self._aside) + sum(len(queue) for queue in self._queues.values())

    def __bool__(self) -> bool:
        return bool(self._queues or self._aside)

    def join(self, in_flight: InFlight) -> None:
        """Wait behind all others."""
        request = in_flight.request
        self._queues.setdefault(request.pinned_rank, OrderedDict())[request.request_id] = in_flight

    def join_first(self, requests: Sequence[InFlight]) -> None:
        """Wait before all others, in the order given."""
        for in_flight in reversed(requests):
            request = in_flight.request
            self.join(in_flight)
            self._queues[request.pinned_rank].move_to_end(request.request_id, last=False)

    def leave(self, in_flight: InFlight) -> None:
        """Wait no longer; harmless for a request that does not."""
        request = in_flight.request
        self._aside.pop(request.request_id, None)
        queue = self._queues.get(request.pinned_rank)
        if queue is not None:
            queue.pop(request.request_id, None)
            if not queue:
                del self._queues[request.pinned_rank]

    def offer(self, dispatch: Dispatch) -> InFlight | None:
        """Offer requests until one is sent, which the caller lets leave; None if none was.

        `dispatch` may let any request leave.
        """
        for in_flight in list(islice(self._aside.values(), RETRIES_PER_OFFER)):
            if dispatch(in_flight):
                return in_flight
            if in_flight.request.request_id in self._aside:
                self._aside.move_to_end(in_flight.request.request_id)
        for rank in sorted(self._queues, key=self._arrival):
            sent = self._offer_free(dispatch) if rank is None else self._offer_first(rank, dispatch)
            if sent is not None:
                return sent
        return None

    def _arrival(self, rank: int | None) -> float:
        return next(iter(self._queues[rank].values())).request.arrived_at

    def _offer_first(self, rank: int, dispatch: Dispatch) -> InFlight | None:
        queue = self._queues.get(rank)
        if queue is None:
            return None
        first = next(iter(queue.values()))
        return first if dispatch(first) else None

    def _offer_free(self, dispatch: Dispatch) -> InFlight | None:
        for in_flight in list(islice(self._queues.get(None, {}).values(), TRIES_PER_OFFER)):
            if dispatch(in_flight):
                return in_flight
            if in_flight.request.request_id in self._queues.get(None, {}):
                self.leave(in_flight)
                self._aside[in_flight.request.request_id] = in_flight
        return None
