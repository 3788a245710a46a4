"""The requests that wait, in the order in which they will be served."""

import heapq
from collections import Counter
from collections.abc import Collection, Iterator

from engine.request import Request

_Entry = tuple[tuple[int, float, int], Request]


class RequestQueue:
    """A priority queue by `Request.precedence`, from which any request can be removed.

    Tenants can be passed over: each has a heap of its own.
    Since precedence is fixed when a request is accepted, a preempted one is back where it was:
    ahead of all that came later. Removal leaves a dead heap entry behind, and many of them
    together are swept out, so every operation is O(log n) on average.
    """

    def __init__(self) -> None:
        self._heaps: dict[str, list[_Entry]] = {}
        """By tenant; never empty ones."""
        self._num_dead = 0
        self._members: dict[str, Request] = {}
        self.tokens_by_tenant: Counter[str] = Counter()
        """Of those that have members."""
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
        heap = self._heaps.setdefault(request.tenant, [])
        try:
            heapq.heappush(heap, (request.precedence, request))
        except TypeError:  # what cannot be compared must not stay
            self._sweep()
            raise
        self._members[request.request_id] = request
        self.num_tokens += request.num_tokens
        self.tokens_by_tenant[request.tenant] += request.num_tokens

    def first(self, passed_over: Collection[str] = ()) -> Request | None:
        """The request to be served next, but for those of some tenants; None if there is none."""
        for tenant in list(self._heaps):
            self._bury_first(tenant)
        heads = [heap[0] for tenant, heap in self._heaps.items() if tenant not in passed_over]
        return min(heads)[1] if heads else None

    def pop(self) -> Request:
        """Take out the request to be served next. There must be one."""
        request = self.first()
        assert request is not None, "nobody waits"
        self.remove(request)
        return request

    def remove(self, request: Request) -> None:
        """Take out this member, wherever it is."""
        heap = self._heaps[request.tenant]
        if heap[0][1] is request:  # it may come back, and must not be here twice
            heapq.heappop(heap)
        else:
            self._num_dead += 1
        del self._members[request.request_id]
        self.num_tokens -= request.num_tokens
        self.tokens_by_tenant[request.tenant] -= request.num_tokens
        if not self.tokens_by_tenant[request.tenant]:
            del self.tokens_by_tenant[request.tenant]
        if self._num_dead > len(self._members) + 16:
            self._sweep()

    def _bury_first(self, tenant: str) -> None:
        """Take dead entries from the top of this tenant's heap."""
        heap = self._heaps[tenant]
        while heap and not self._is_alive(heap[0]):
            heapq.heappop(heap)
            self._num_dead -= 1
        if not heap:
            del self._heaps[tenant]

    def _sweep(self) -> None:
        alive = {t: [e for e in heap if self._is_alive(e)] for t, heap in self._heaps.items()}
        self._heaps = {tenant: heap for tenant, heap in alive.items() if heap}
        for heap in self._heaps.values():
            heapq.heapify(heap)
        self._num_dead = 0

    def _is_alive(self, entry: _Entry) -> bool:
        return self._members.get(entry[1].request_id) is entry[1]
