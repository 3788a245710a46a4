"""The requests that no engine has, in the order in which engines get them, and how many may wait."""

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from cluster.config import FrontendConfig
from cluster.errors import Overloaded
from frontend.backlog import Backlog, DrainRate
from frontend.fair_rotation import FairRotation, MaySend, anybody, cost_tokens, nobody
from frontend.in_flight import InFlight
from frontend.request import GenerationRequest
from frontend.tenant_line import Dispatch, TenantLine
from frontend.tenant_shares import leaves_too_little

MAX_RETRY_AFTER_SECONDS = 60
UNKNOWN_RETRY_AFTER_SECONDS = 5
"""While no speed is measured, or no engine is there that would have one."""


class Place(NamedTuple):
    """What was counted when a request joined."""

    in_flight: InFlight
    context_tokens: int
    cost_tokens: int
    has_begun: bool


@dataclass(slots=True)
class Queued:
    """How much waits."""

    requests: int = 0
    context_tokens: int = 0
    cost_tokens: int = 0

    def count(self, place: Place, sign: int) -> None:
        """Add what has joined, or with -1 take away what has left."""
        self.requests += sign
        self.context_tokens += sign * place.context_tokens
        self.cost_tokens += sign * place.cost_tokens


class WaitingLine:
    """First those that have begun, then by priority, then a fair share to each tenant.

    A tenant's own requests go first come first served; but who cannot be sent now, for what reason
    ever, holds up nobody. Joining, leaving and serving cost the same, however many wait.
    """

    def __init__(self, settings: FrontendConfig) -> None:
        self._settings = settings
        self._places: dict[str, Place] = {}
        """In the order of joining."""
        self._begun = TenantLine()
        self._rotations: dict[int, FairRotation] = {}
        self._priorities: list[int] = []
        """Those of the rotations, sorted; the lowest goes first."""
        self._drain = DrainRate()
        self._total = Queued()
        self._by_tenant: dict[str, Queued] = {}
        self._begun_cost_tokens = 0
        self._cost_tokens: Counter[int] = Counter()
        """By priority; of those that have not begun."""
        self._is_serving = False

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[InFlight]:
        return iter([place.in_flight for place in self._places.values()])

    @property
    def num_tokens(self) -> int:
        """Tokens of context, that is prompts and what was answered already, of all that wait."""
        return self._total.context_tokens

    def overdue(self, now: float) -> list[InFlight]:
        """Those that have waited longer than `queue_timeout`; costs no more than there are."""
        limit = now - self._settings.queue_timeout
        places = takewhile(lambda p: p.in_flight.queued_at < limit, self._places.values())
        return [place.in_flight for place in places]

    # ── coming and going ──

    def join(self, in_flight: InFlight) -> None:
        """Wait behind all others of the same priority and tenant."""
        self._enter(in_flight, has_begun=False)
        priority = in_flight.request.priority
        if priority not in self._rotations:
            insort(self._priorities, priority)
            self._rotations[priority] = FairRotation()
        self._rotations[priority].join(in_flight)

    def join_first(self, requests: Sequence[InFlight]) -> None:
        """Wait before all others, in the order given."""
        for in_flight in requests:
            self._enter(in_flight, has_begun=True)
        self._begun.join_first(requests)

    def leave(self, in_flight: InFlight) -> None:
        """Wait no longer; harmless for a request that does not."""
        place = self._places.pop(in_flight.request.request_id, None)
        if place is None:
            return
        request = in_flight.request
        if place.has_begun:
            self._begun.leave(in_flight)
        else:
            rotation = self._rotations[request.priority]
            rotation.leave(in_flight)
            if not rotation:
                del self._rotations[request.priority]
                self._priorities.pop(bisect_left(self._priorities, request.priority))
        self._count(place, -1)

    def serve(
        self,
        dispatch: Dispatch,
        has_room: Callable[[], bool],
        may_overtake: MaySend = nobody,
    ) -> None:
        """Offer one after the other to `dispatch`; those that it sends have left.

        What is new is offered only while there is room, or of tenants that need none since they
        `may_overtake` what waits in engines; for what has begun `dispatch` finds room.
        `dispatch` may let any request leave; what it asks to be served meanwhile, this call serves.
        """
        if self._is_serving:
            return
        self._is_serving = True
        try:
            while self._places:
                sent = self._begun.offer(dispatch)
                if sent is None:
                    sent = self._offer_new(dispatch, anybody if has_room() else may_overtake)
                if sent is None:
                    return
                self._drain.on_sent(cost_tokens(sent))
                self.leave(sent)
                if not self._places:
                    self._drain.on_empty()
        finally:
            self._is_serving = False

    def _offer_new(self, dispatch: Dispatch, may_send: MaySend) -> InFlight | None:
        for priority in list(self._priorities):
            rotation = self._rotations.get(priority)
            sent = rotation.offer(dispatch, may_send) if rotation is not None else None
            if sent is not None:
                return sent
        return None

    def _enter(self, in_flight: InFlight, has_begun: bool) -> None:
        place = Place(
            in_flight, in_flight.num_context_tokens, cost_tokens(in_flight), has_begun=has_begun
        )
        request_id = in_flight.request.request_id
        assert request_id not in self._places, f"{request_id} waits already"
        self._places[request_id] = place
        self._count(place, 1)

    def _count(self, place: Place, sign: int) -> None:
        request = place.in_flight.request
        self._total.count(place, sign)
        own = self._by_tenant.setdefault(request.tenant, Queued())
        own.count(place, sign)
        if not own.requests:
            del self._by_tenant[request.tenant]
        if place.has_begun:
            self._begun_cost_tokens += sign * place.cost_tokens
        else:
            self._cost_tokens[request.priority] += sign * place.cost_tokens
            if not self._cost_tokens[request.priority]:
                del self._cost_tokens[request.priority]

    # ── admission ──

    def check_room(self, request: GenerationRequest, now: float, backlog: Backlog) -> None:
        """Whether one more may wait, for as long as it would. Raises Overloaded, which says when to come again."""
        if self._places:
            self._drain.look(now, backlog.num_engines)
            self._check_bounds(request, backlog)
        limit = self._settings.max_ttft
        seconds = self.predict_ttft(request, backlog) if limit is not None else None
        if limit is not None and seconds is not None and seconds > limit:
            raise Overloaded(
                f"the first token would take about {seconds:.1f} s, and max_ttft is {limit:g} s",
                _retry_after(seconds - limit),
                "max ttft",
            )

    def predict_ttft(self, request: GenerationRequest, backlog: Backlog) -> float | None:
        """Seconds that this request would wait for its first token; None while nobody can say."""
        if not backlog.num_engines:
            return None
        seconds = backlog.prefill_seconds(len(request.prompt_token_ids))
        if self._places:
            ahead = self._tokens_ahead(request) + self._tokens_in_engines(backlog)
            seconds += ahead / self._tokens_per_second(backlog)
        return seconds

    def _check_bounds(self, request: GenerationRequest, backlog: Backlog) -> None:
        own = self._by_tenant.get(request.tenant, Queued())
        total, tokens = self._total, len(request.prompt_token_ids)
        for name, limit, queued, of_tenant, more in (
            ("requests", self._settings.max_queued_requests, total.requests, own.requests, 1),
            ("tokens", self._settings.max_queued_tokens, total.context_tokens,
             own.context_tokens, tokens),
        ):  # fmt: skip
            reason = "queue full" if name == "requests" else "queue tokens"
            if queued + more > limit:
                text = f"the queue is full: max_queued_{name} is {limit}"
            elif request.tenant and leaves_too_little(of_tenant, limit - queued):
                text = f"this API key has {of_tenant} {name} in the queue, its share of max_queued_{name} {limit}"
            else:
                continue
            seconds = float(UNKNOWN_RETRY_AFTER_SECONDS)
            if backlog.num_engines:
                seconds = total.cost_tokens / self._tokens_per_second(backlog)
            raise Overloaded(text, _retry_after(seconds), reason)

    def _tokens_ahead(self, request: GenerationRequest) -> int:
        """What is sent before a request that joins now, near enough: tenants take turns."""
        first = bisect_left(self._priorities, request.priority)
        better = sum(self._cost_tokens[priority] for priority in self._priorities[:first])
        own = self._by_tenant.get(request.tenant, Queued())
        own_tokens = own.cost_tokens + len(request.prompt_token_ids)
        equal = min(self._cost_tokens[request.priority], own_tokens * len(self._by_tenant))
        return self._begun_cost_tokens + better + equal

    def _tokens_in_engines(self, backlog: Backlog) -> float:
        """This frontend's share of what waits in engines, taken to be such requests as wait here."""
        share = backlog.waiting_requests / backlog.num_frontends
        return share * self._total.cost_tokens / self._total.requests

    def _tokens_per_second(self, backlog: Backlog) -> float:
        total = self._total
        expected = backlog.drain_tokens_per_second(total.context_tokens, total.cost_tokens)
        return self._drain.tokens_per_second(backlog.num_engines, expected)


def _retry_after(seconds: float) -> int:
    return min(max(1, math.ceil(seconds)), MAX_RETRY_AFTER_SECONDS)
