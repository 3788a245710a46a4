"""A simulated frontend: production's balancer and books, on a fake clock."""

from collections.abc import Callable, Mapping, Sequence
from time import process_time

from cluster.wire.messages import BlockEvents, EngineHello, LoadReport
from frontend.balancer import Balancer
from frontend.engine_book import EngineBook, hits_by_rank
from frontend.routing.sessions import LastTurn, Sessions
from frontend.routing.view import RoutedRequest, RoutingView
from loadtests.simulation.engine_request import EngineRequest
from loadtests.simulation.held_requests import HeldRequests
from loadtests.simulation.outcome import Tally
from loadtests.simulation.request import ClientRequest

Send = Callable[[int, EngineRequest], None]
"""Takes the rank of an engine, and what it is sent."""


class FrontendModel:
    """Chooses engines as `frontend.dispatcher` does, and keeps the requests that none has room for."""

    def __init__(
        self,
        index: int,
        num_frontends: int,
        balancer: Balancer,
        send: Send,
        tally: Tally,
        holds_back: bool = True,
    ) -> None:
        self.index = index
        self.books: dict[int, EngineBook] = {}
        self._num_frontends = num_frontends
        self._balancer = balancer
        self._send = send
        self._tally = tally
        self._holds_back = holds_back
        self._held = HeldRequests()
        self._sessions = Sessions()
        self._sent: dict[int, dict[str, ClientRequest]] = {}
        """By engine, what it has of this frontend."""

    # ── clients ──

    def submit(self, request: ClientRequest, now: float) -> None:
        """Send a request to an engine, or let it wait for one."""
        if not self._held and self._dispatch(request, now):
            return
        self._tally.held += 1
        self._held.join(request)
        self.serve(now)

    def serve(self, now: float) -> None:
        """Send what waits, as far as there is room."""
        if self._held:
            self._held.serve(
                lambda request: self._dispatch(request, now),
                lambda: any(
                    self._has_room(book, now, has_begun=False) for book in self.books.values()
                ),
            )

    def _dispatch(self, request: ClientRequest, now: float) -> bool:
        begun_at = process_time()
        books = [
            book
            for book in self.books.values()
            if self._has_room(book, now, has_begun=request.num_outputs > 0)
        ]
        hits = self._hit_tokens(request, books)
        view = RoutingView([book.load(now) for book in books], self._num_frontends, now)
        choice = self._balancer.choose(view, RoutedRequest(request.context_tokens, hits))
        if choice is None:
            return False
        self._tally.decisions += 1
        self._tally.decision_seconds += process_time() - begun_at
        self._send_to(self.books[choice.rank], request, hits.get(choice.rank, 0), now)
        return True

    def _hit_tokens(self, request: ClientRequest, books: Sequence[EngineBook]) -> Mapping[int, int]:
        """By rank: how many tokens of its context an engine need not compute, as the dispatcher counts."""
        hashes = request.prompt_hashes
        if not hashes:
            return {}
        hits = hits_by_rank(books, hashes)
        incarnations = {book.rank: book.incarnation for book in books}
        most = request.context_tokens - 1
        soft_hits = self._sessions.with_soft_hit(
            hits, request.session, request.context_tokens, incarnations
        )
        return {rank: min(hit, most) for rank, hit in soft_hits.items()}

    def _send_to(
        self, book: EngineBook, request: ClientRequest, hit_tokens: int, now: float
    ) -> None:
        seq = book.dispatch(
            request.request_id, request.context_tokens, request.prompt_hashes, hit_tokens
        )
        turn = LastTurn(book.rank, book.incarnation, request.context_tokens)
        self._sessions.remember(request.session, turn)
        self._sent[book.rank][request.request_id] = request
        accepted_at = request.arrived_at if request.num_outputs else now
        precedence = (accepted_at, self._tally.decisions)
        self._send(
            book.rank, EngineRequest(request, self.index, seq, precedence, request.num_outputs)
        )

    def _has_room(self, book: EngineBook, now: float, has_begun: bool) -> bool:
        return not self._holds_back or book.has_room(self._num_frontends, now, has_begun=has_begun)

    # ── engines ──

    def welcome(self, hello: EngineHello, now: float) -> None:
        """An engine serves."""
        book = EngineBook(hello, (self.index, 1), known_since=now)
        book.heard_at = now
        self.books[hello.rank] = book
        self._sent[hello.rank] = {}

    def accept(self, report: LoadReport, made_at: float) -> None:
        """Take in a report, unless its engine is held dead."""
        book = self.books.get(report.rank)
        if book is not None and book.incarnation == report.incarnation:
            book.accept(report, made_at)

    def apply(self, events: BlockEvents) -> None:
        """Take in what has changed in an engine's prefix cache, unless it is held dead."""
        book = self.books.get(events.rank)
        if book is not None and book.incarnation == events.incarnation:
            book.prefix.apply(events)

    def on_began(self, rank: int, request: ClientRequest) -> None:
        """The engine has sent the request's first token there."""
        self.books[rank].begin(request.request_id)

    def on_ended(self, rank: int, request: ClientRequest) -> None:
        """The engine has sent the request's last token."""
        self.books[rank].settle(request.request_id)
        del self._sent[rank][request.request_id]

    def lose(self, rank: int, now: float) -> Sequence[ClientRequest]:
        """Hold an engine dead: what it had goes to others, or waits first. Returns those."""
        del self.books[rank]
        lost = list(self._sent.pop(rank).values())
        self._held.join_first(lost)
        self.serve(now)
        return lost
