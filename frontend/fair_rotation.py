"""Whose turn it is among tenants that all wait: fair queueing, counted in tokens."""

import heapq
from collections.abc import Callable

from frontend.in_flight import InFlight
from frontend.tenant_line import Dispatch, TenantLine

EXPECTED_OUTPUT_TOKENS = 256
"""What an answer is taken to have at most: clients ask for more than they will get."""

MaySend = Callable[[str], bool]
"""Whether this tenant may have a request sent now."""


def anybody(tenant: str) -> bool:
    """Every tenant may send."""
    return True


def nobody(tenant: str) -> bool:
    """No tenant may send."""
    return False


def cost_tokens(in_flight: InFlight) -> int:
    """What a request counts against its tenant: its context and the output that is to be expected."""
    remaining = in_flight.request.sampling.max_tokens - in_flight.num_output_tokens
    return in_flight.num_context_tokens + max(1, min(remaining, EXPECTED_OUTPUT_TOKENS))


class FairRotation:
    """The waiting requests of one priority, each tenant's in order, tenants by their shares.

    Start-time fair queueing: a tenant's turn is at the number of tokens that it has been given, and
    one that comes anew starts where the others are now. So two tenants that both wait get equal
    numbers of tokens, but for one request of each, and who has nothing in line yet is next,
    however many requests of others there are.
    """

    def __init__(self) -> None:
        self._lines: dict[str, TenantLine] = {}
        """Of those who wait; never empty ones."""
        self._turns: dict[str, int] = {}
        """The number of tokens at which each tenant's turn is; also of those who have left."""
        self._heap: list[tuple[int, int, str]] = []
        """(turn, tie-break, tenant), at most one entry for each; turns may have grown since."""
        self._heap_tenants: set[str] = set()
        self._num_pushed = 0
        self._now_tokens = 0
        """The turn of the newest request sent."""

    def __bool__(self) -> bool:
        return bool(self._lines)

    def join(self, in_flight: InFlight) -> None:
        """Wait behind all others of the same tenant."""
        tenant = in_flight.request.tenant
        line = self._lines.get(tenant)
        if line is None:
            line = self._lines[tenant] = TenantLine()
            self._turns[tenant] = max(self._turns.get(tenant, 0), self._now_tokens)
            if tenant not in self._heap_tenants:
                self._push(tenant)
        line.join(in_flight)

    def leave(self, in_flight: InFlight) -> None:
        """Wait no longer; harmless for a request that does not."""
        tenant = in_flight.request.tenant
        line = self._lines.get(tenant)
        if line is not None:
            line.leave(in_flight)
            if not line:
                del self._lines[tenant]

    def offer(self, dispatch: Dispatch, may_send: MaySend = anybody) -> InFlight | None:
        """Offer requests, those whose turn it is first, until one is sent; None if none was.

        A tenant that may send nothing now keeps its turn.
        """
        offered: list[str] = []
        sent = None
        try:
            while sent is None and self._heap:
                turn, _, tenant = heapq.heappop(self._heap)
                self._heap_tenants.remove(tenant)
                line = self._lines.get(tenant)
                if line is None:
                    continue
                if turn != self._turns[tenant]:
                    self._push(tenant)
                    continue
                offered.append(tenant)
                sent = line.offer(dispatch) if may_send(tenant) else None
                if sent is not None:
                    self._now_tokens = max(self._now_tokens, turn)
                    self._turns[tenant] = turn + cost_tokens(sent)
        finally:  # whatever `dispatch` does, nobody loses the next turn
            for tenant in offered:
                self._push(tenant)
        if sent is not None:
            self.leave(sent)
        return sent

    def _push(self, tenant: str) -> None:
        self._num_pushed += 1
        self._heap_tenants.add(tenant)
        heapq.heappush(self._heap, (self._turns[tenant], self._num_pushed, tenant))
