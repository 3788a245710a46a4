"""What one frontend holds of the cluster: the newest view, and what it has seen itself. Pure."""

from typing import NamedTuple

from cluster.wire.messages import ClusterView, EngineHello, EngineState, LoadReport
from frontend.balancer import RoutingView
from frontend.engine_book import EngineBook

STALE_VIEW_SECONDS = 1.0
"""Without a view for so long, the coordinator is taken to be away."""


class EngineDeath(NamedTuple):
    """An incarnation that will never be believed again."""

    rank: int
    incarnation: int
    cause: str
    fault: bool
    """Whether the engine is to blame, and not somebody who killed it from outside."""
    suspects: frozenset[str] = frozenset()
    """Requests that were being computed when it failed; empty where it could not say."""


class LiveView:
    """The engines that this frontend can reach, what each has to do, and who is dead.

    Three sources: the coordinator's views, hellos and outputs of the engines themselves, and the
    state of the connections. Each method returns the deaths that follow from what it was told.
    """

    def __init__(self, frontend: tuple[int, int], suspect_after_seconds: float, now: float) -> None:
        self.books: dict[int, EngineBook] = {}
        """The newest incarnation of each engine that has said hello here, and is not dead."""
        self.cluster: ClusterView | None = None
        self.is_draining = False
        self._frontend = frontend
        self._suspect_after_seconds = suspect_after_seconds
        self._viewed_at = now
        self._states: dict[tuple[int, int], EngineState] = {}
        self._newest_dead: dict[int, int] = {}

    def is_current(self, rank: int, incarnation: int) -> bool:
        """Whether what this incarnation sends is to be believed."""
        book = self.books.get(rank)
        return book is not None and book.incarnation == incarnation

    @property
    def are_all_engines_dead(self) -> bool:
        """Whether the newest view holds every engine dead, and has none that is starting."""
        engines = self.cluster.engines if self.cluster is not None else []
        return bool(engines) and all(entry.state is EngineState.DEAD for entry in engines)

    # ── what comes in ──

    def welcome(self, hello: EngineHello) -> EngineDeath | None:
        """An engine has connected. Returns whom it replaces, if anybody.

        A second hello of one incarnation means that the engine has dropped this frontend and with
        it all its requests, as if it had died and come back.
        """
        if hello.incarnation <= self._newest_dead.get(hello.rank, 0):
            return None
        replaced = self.books.get(hello.rank)
        if replaced is not None and replaced.incarnation > hello.incarnation:
            return None
        self.books[hello.rank] = EngineBook(hello, self._frontend)
        if replaced is None:
            return None
        return EngineDeath(replaced.rank, replaced.incarnation, "replaced", fault=False)

    def accept_report(self, report: LoadReport, made_at: float) -> None:
        """Take in a load report, whichever way it came."""
        if self.is_current(report.rank, report.incarnation):
            self.books[report.rank].accept(report, made_at)

    def apply(self, view: ClusterView, now: float) -> list[EngineDeath]:
        """Take in a view of the coordinator."""
        self.cluster, self._viewed_at = view, now
        self.is_draining = view.draining
        deaths: list[EngineDeath | None] = []
        for entry in view.engines:
            self._states[entry.rank, entry.incarnation] = entry.state
            book = self.books.get(entry.rank)
            if entry.state is EngineState.DEAD:
                deaths.append(self.bury(entry.rank, entry.incarnation, entry.cause, entry.fault))
            elif book is not None and book.incarnation < entry.incarnation:
                deaths.append(self.bury(entry.rank, book.incarnation, "replaced", fault=False))
            elif entry.report is not None:
                self.accept_report(entry.report, now - entry.report_age_seconds)
        newest = {entry.rank: entry.incarnation for entry in view.engines}
        self._states = {
            key: state for key, state in self._states.items() if newest.get(key[0]) == key[1]
        }
        return [death for death in deaths if death is not None]

    def bury(self, rank: int, incarnation: int, cause: str, fault: bool) -> EngineDeath | None:
        """Hold this incarnation dead, and all before it, for good. None if that is no news."""
        if incarnation > self._newest_dead.get(rank, 0):
            self._newest_dead[rank] = incarnation
        book = self.books.get(rank)
        if book is None or book.incarnation > incarnation:
            return None
        del self.books[rank]
        if book.incarnation < incarnation:  # of its own end nothing is known
            return EngineDeath(rank, book.incarnation, "replaced", fault=False)
        return EngineDeath(rank, book.incarnation, cause, fault)

    def set_reachable(self, rank: int, is_reachable: bool, now: float) -> None:
        """Note whether the connection to an engine stands."""
        book = self.books.get(rank)
        if book is None:
            return
        if is_reachable:
            book.disconnected_at = None
        elif book.disconnected_at is None:
            book.disconnected_at = now

    def expire(self, now: float) -> list[EngineDeath]:
        """With the coordinator away, a closed connection and silence are a death."""
        if not self._is_coordinator_away(now):
            return []
        lost = [
            book
            for book in self.books.values()
            if book.disconnected_at is not None
            and now - book.disconnected_at > self._suspect_after_seconds
            and now - book.heard_at > self._suspect_after_seconds
        ]
        deaths = [
            self.bury(book.rank, book.incarnation, "connection lost", fault=False) for book in lost
        ]
        return [death for death in deaths if death is not None]

    # ── what follows ──

    def _is_coordinator_away(self, now: float) -> bool:
        return now - self._viewed_at > STALE_VIEW_SECONDS

    def may_choose(self, book: EngineBook, now: float) -> bool:
        """Whether this engine may get new work: connected, not draining, and heard of lately."""
        if book.disconnected_at is not None:
            return False
        state = self._states.get((book.rank, book.incarnation), EngineState.READY)
        if self._is_coordinator_away(now):
            # Nothing reports while nothing is in flight; only an engine that owes us outputs is suspect.
            owes = book.in_flight > 0
            is_silent = owes and now - book.heard_at > self._suspect_after_seconds
            return state is not EngineState.DRAINING and not is_silent
        # STARTING is the view's word for an engine whose first report has not reached it; it has
        # said hello here, and so it serves.
        return state in (EngineState.READY, EngineState.STARTING)

    def routing_view(self, now: float) -> RoutingView:
        """The engines to choose from."""
        frontends = self.cluster.frontends if self.cluster is not None else []
        return RoutingView(
            [book.load(now) for book in self.books.values() if self.may_choose(book, now)],
            max(1, sum(frontend.alive for frontend in frontends)),
        )
