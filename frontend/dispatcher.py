"""Sends requests to engines, and takes them back."""

import logging
import time
from collections.abc import Callable, Sequence

import msgspec

from cluster.telemetry.logs import RateLimited
from cluster.wire.messages import AbortRequests, Message
from frontend.balancer import Balancer
from frontend.cluster_view import LiveView
from frontend.engine_book import EngineBook, EngineLoad, hits_by_rank
from frontend.in_flight import InFlight
from frontend.metrics import FrontendMetrics
from frontend.routing.decisions import Decision, DecisionLog
from frontend.routing.sessions import LastTurn, Sessions
from frontend.routing.view import EngineChoice, RoutedRequest, RoutingView
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
        has_prefix_cache: bool,
    ) -> None:
        self._frontend = frontend
        self._view = view
        self._balancer = balancer
        self._suspicions = suspicions
        self._metrics = metrics
        self._send = send
        self._has_prefix_cache = has_prefix_cache
        self._sessions = Sessions()
        self.decisions = DecisionLog()
        self._on_trial: list[InFlight] = []
        """The suspects that engines have."""
        self._complaints = RateLimited(logging.getLogger("frontend.dispatcher"))

    @property
    def num_places(self) -> float:
        """This frontend's share of the places of all engines."""
        places = sum(book.hello.max_num_seqs for book in self._view.books.values())
        return places / self._view.num_frontends

    def has_room(self) -> bool:
        """Whether some engine would take a request now."""
        now, num_frontends = time.monotonic(), self._view.num_frontends
        return any(
            book.has_room(num_frontends, now) and self._view.may_choose(book, now)
            for book in self._view.books.values()
        )

    def dispatch(self, in_flight: InFlight, may_overtake: bool = False) -> bool:
        """Send a request to the best engine that takes it; False if none does.

        One that `may_overtake` what waits in engines finds room in any.
        """
        now = time.monotonic()
        view = self._view.routing_view(now)
        view = view._replace(loads=self._eligible(in_flight, view, may_overtake, now))
        request = self._routed_request(in_flight, view)
        while choice := self._balancer.choose(view, request):
            book = self._view.books[choice.rank]
            if self._send_add(in_flight, book, request.hit_tokens.get(choice.rank, 0), now):
                self._note(in_flight, view, request, choice, now)
                return True
            self._view.set_reachable(choice.rank, False, now)
            left = [load for load in view.loads if load.rank != choice.rank]
            view = view._replace(loads=left)
        return False

    def abort(self, in_flight: InFlight) -> None:
        """Take a request back from the engine that has it, if one has."""
        if in_flight.engine is None:
            return
        book, request_id = in_flight.engine, in_flight.request.request_id
        seq = book.withdraw(request_id, has_begun=in_flight.first_token_at is not None)
        if not self._send(book, AbortRequests(*self._frontend, seq, [request_id])):
            self._complaints.warning("abort", "engine %d did not take an abort", book.rank)

    def _eligible(
        self, in_flight: InFlight, view: RoutingView, may_overtake: bool, now: float
    ) -> Sequence[EngineLoad]:
        """The engines that may have this request, and have room for it."""
        taken = self._ranks_with_a_suspect() if self._isolated_until(in_flight) else set()
        loads = [
            load
            for load in view.loads
            if load.rank not in taken
            and in_flight.may_go_to(book := self._view.books[load.rank])
            and (
                may_overtake
                or book.has_room(view.num_frontends, now, has_begun=in_flight.num_output_tokens > 0)
            )
        ]
        if not may_overtake:
            return loads
        return [_without_what_is_passed(load) for load in self._with_free_places(loads)]

    def _with_free_places(self, loads: list[EngineLoad]) -> list[EngineLoad]:
        """Those that run fewer requests than they can; all, if none does."""
        free = [
            load
            for load in loads
            if load.report is None
            or load.report.running < self._view.books[load.rank].hello.max_num_seqs
        ]
        return free or loads

    def _routed_request(self, in_flight: InFlight, view: RoutingView) -> RoutedRequest:
        """The request as a policy sees it, with what each engine need not compute of it."""
        context_tokens, request = in_flight.num_context_tokens, in_flight.request
        if not self._may_hit(in_flight):
            return RoutedRequest(context_tokens)
        books = [self._view.books[load.rank] for load in view.loads]
        hits = self._sessions.with_soft_hit(
            hits_by_rank(books, request.block_hashes),
            request.session,
            context_tokens,
            {book.rank: book.incarnation for book in books},
        )
        most = context_tokens - 1  # the next token is drawn from the last one's logits
        return RoutedRequest(
            context_tokens, {rank: min(hit, most) for rank, hit in hits.items() if hit}
        )

    def _may_hit(self, in_flight: InFlight) -> bool:
        """Whether a cache is of use to this request: prompt logprobs need all of it computed."""
        wants_all = in_flight.request.sampling.prompt_logprobs is not None
        return self._has_prefix_cache and not (wants_all and not in_flight.num_output_tokens)

    def _note(
        self,
        in_flight: InFlight,
        view: RoutingView,
        request: RoutedRequest,
        choice: EngineChoice,
        now: float,
    ) -> None:
        """Keep and count a decision that was carried out."""
        rank, policy_name = choice.rank, self._balancer.policy_name
        request_id, session = in_flight.request.request_id, in_flight.request.session
        self.decisions.add(Decision(now, request_id, policy_name, view, request, choice))
        turn = LastTurn(rank, self._view.books[rank].incarnation, request.context_tokens)
        self._sessions.remember(session, turn)
        hit_tokens = request.hit_tokens.get(rank, 0)
        self._metrics.routed(rank, policy_name, choice.cost_seconds, hit_tokens)

    def _send_add(self, in_flight: InFlight, book: EngineBook, hit_tokens: int, now: float) -> bool:
        request_id, isolated_until = in_flight.request.request_id, self._isolated_until(in_flight)
        promised = in_flight.request.block_hashes if self._has_prefix_cache else ()
        seq = book.dispatch(request_id, in_flight.num_context_tokens, promised, hit_tokens)
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


def _without_what_is_passed(load: EngineLoad) -> EngineLoad:
    """The load as it is for a request that passes those of whoever floods the engine.

    What waits there are those: a request that passes them is started by the next step.
    """
    report = load.report
    if report is None or report.unpassed_prompt_tokens == report.waiting_prompt_tokens:
        return load
    tokens = report.unpassed_prompt_tokens
    passed = msgspec.structs.replace(report, waiting=0, waiting_prompt_tokens=tokens)
    return load._replace(report=passed)
