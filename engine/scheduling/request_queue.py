"""The requests that wait, in the order in which they will be served."""

import heapq
from collections.abc import Iterator

from engine.request import Request

_Entry = tuple[tuple[int, float, int], Request]


class RequestQueue:
    """A priority queue by `Request.precedence`, from which any request can be removed.

    Since precedence is fixed when a request is accepted, a preempted one is back where it was:
    ahead of all that came later. Removal leaves a dead heap entry behind, and many of them
    together are swept out, so every operation is O(log n) on average.
    """

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._members: dict[str, Request] = {}
        self.num_tokens = 0
        """Prompt and output tokens of all members together."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Request]:
        """The members, in no order."""
        return iter(self._members.values())

    def push(self, request: Request) -> None:
        """Add a request that is not a member."""
        assert request.request_id not in self._members, f"{request.request_id} waits already"
        try:
            heapq.heappush(self._heap, (request.precedence, request))
        except TypeError:  # what cannot be compared must not stay
            self._sweep()
            raise
        self._members[request.request_id] = request
        self.num_tokens += request.num_tokens

    def first(self) -> Request:
        """The request to be served next. There must be one."""
        while not self._is_alive(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][1]

    def pop(self) -> Request:
        """Take out the request to be served next. There must be one."""
        request = self.first()
        heapq.heappop(self._heap)
        self._drop(request)
        return request

    def remove(self, request: Request) -> None:
        """Take out this member, wherever it is."""
        self._drop(request)
        if len(self._heap) > 2 * len(self._members) + 16:
            self._sweep()

    def _sweep(self) -> None:
        self._heap = [entry for entry in self._heap if self._is_alive(entry)]
        heapq.heapify(self._heap)

    def _drop(self, request: Request) -> None:
        del self._members[request.request_id]
        self.num_tokens -= request.num_tokens

    def _is_alive(self, entry: _Entry) -> bool:
        return self._members.get(entry[1].request_id) is entry[1]
