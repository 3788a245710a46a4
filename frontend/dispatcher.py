"""Sends requests to engines, and takes them back."""

import logging
import time
from collections.abc import Callable

from cluster.telemetry.logs import RateLimited
from cluster.wire.messages import AbortRequests, Message
from frontend.balancer import Balancer
from frontend.cluster_view import LiveView
from frontend.engine_book import EngineBook
from frontend.in_flight import InFlight
from frontend.metrics import FrontendMetrics
from frontend.routing.view import RoutedRequest
from frontend.suspicion import Suspicions

Send = Callable[[EngineBook, Message], bool]
"""Sends without waiting; False if the engine is not there or takes nothing more."""


class Dispatcher:
    """Chooses an engine for a request, among those that have room for it, and sends it there.

    Of the suspects each engine gets one at a time: two that fail together would both go free.
    """

    def __init__(
        self,
        frontend: tuple[int, int],
        view: LiveView,
        balancer: Balancer,
        suspicions: Suspicions,
        metrics: FrontendMetrics,
        send: Send,
    ) -> None:
        self._frontend = frontend
        self._view = view
        self._balancer = balancer
        self._suspicions = suspicions
        self._metrics = metrics
        self._send = send
        self._on_trial: list[InFlight] = []
        """The suspects that engines have."""
        self._complaints = RateLimited(logging.getLogger("frontend.dispatcher"))

    def has_room(self) -> bool:
        """Whether some engine would take a request now."""
        now, num_frontends = time.monotonic(), self._view.num_frontends
        return any(
            book.has_room(num_frontends, now) and self._view.may_choose(book, now)
            for book in self._view.books.values()
        )

    def dispatch(self, in_flight: InFlight) -> bool:
        """Send a request to the best engine that takes it; False if none does."""
        now = time.monotonic()
        view = self._view.routing_view(now)
        taken = self._ranks_with_a_suspect() if self._isolated_until(in_flight) else set()
        loads = [
            load
            for load in view.loads
            if load.rank not in taken
            and (book := self._view.books[load.rank]).has_room(
                view.num_frontends, now, has_begun=in_flight.num_output_tokens > 0
            )
            and in_flight.may_go_to(book)
        ]
        request = RoutedRequest(in_flight.num_context_tokens)
        while choice := self._balancer.choose(view._replace(loads=loads), request):
            book = self._view.books[choice.rank]
            if self._send_add(in_flight, book, now):
                self._metrics.routed(choice.rank, self._balancer.policy_name, choice.cost_seconds)
                return True
            self._view.set_reachable(choice.rank, False, now)
            loads = [load for load in loads if load.rank != choice.rank]
        return False

    def abort(self, in_flight: InFlight) -> None:
        """Take a request back from the engine that has it, if one has."""
        if in_flight.engine is None:
            return
        book, request_id = in_flight.engine, in_flight.request.request_id
        seq = book.withdraw(request_id, has_begun=in_flight.first_token_at is not None)
        if not self._send(book, AbortRequests(*self._frontend, seq, [request_id])):
            self._complaints.warning("abort", "engine %d did not take an abort", book.rank)

    def _send_add(self, in_flight: InFlight, book: EngineBook, now: float) -> bool:
        request_id, isolated_until = in_flight.request.request_id, self._isolated_until(in_flight)
        seq = book.dispatch(request_id, in_flight.num_context_tokens)
        message = in_flight.next_attempt(*self._frontend, seq, isolated_until, now)
        if not self._send(book, message):
            book.undo_dispatch(request_id)
            return False
        in_flight.assign(book)
        if isolated_until:
            self._on_trial.append(in_flight)
        return True

    def _isolated_until(self, in_flight: InFlight) -> int:
        return self._suspicions.isolated_until(in_flight.request.request_id)

    def _ranks_with_a_suspect(self) -> set[int]:
        self._on_trial = [
            suspect
            for suspect in self._on_trial
            if suspect.engine is not None
            and not suspect.stream.is_finished
            and self._isolated_until(suspect)
        ]
        return {suspect.engine.rank for suspect in self._on_trial if suspect.engine is not None}
