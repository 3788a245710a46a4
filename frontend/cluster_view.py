"""What one frontend holds of the cluster: the newest view, and what it has seen itself. Pure."""

from typing import NamedTuple

from cluster.wire.messages import (
    BlockEvents,
    ClusterView,
    EngineDeath,
    EngineEntry,
    EngineHello,
    EngineState,
    LoadReport,
)
from frontend.engine_book import EngineBook
from frontend.routing.view import RoutingView

STALE_VIEW_SECONDS = 1.0
"""Without a view for so long, the coordinator is taken to be away."""


OBITUARY_SECONDS = 15.0
"""For so long the true cause of a death that was decided here may still come."""


class EngineCounts(NamedTuple):
    """How many engines there are, by what they are doing."""

    total: int
    """As many as there are to be."""
    ready: int = 0
    """Those that would get a request now."""
    draining: int = 0
    parked: int = 0
    """Those that died too often, and are tried only now and then."""


class LiveView:
    """The engines that this frontend can reach, what each has to do, and who is dead.

    Three sources: the coordinator's views, hellos and outputs of the engines themselves, and the
    state of the connections. Each method returns the deaths that follow from what it was told.
    """

    def __init__(
        self,
        frontend: tuple[int, int],
        suspect_after_seconds: float,
        now: float,
        configured_engines: int = 1,
    ) -> None:
        self.books: dict[int, EngineBook] = {}
        """The newest incarnation of each engine that has said hello here, and is not dead."""
        self.cluster: ClusterView | None = None
        self.is_draining = False
        self._frontend = frontend
        self._suspect_after_seconds = suspect_after_seconds
        self._viewed_at = now
        self._states: dict[tuple[int, int], EngineState] = {}
        self._newest_dead: dict[int, int] = {}
        self._configured_engines = configured_engines
        self.unexplained: dict[tuple[int, int], float] = {}
        """Deaths that were decided here, and when; their true causes may still come."""

    def is_current(self, rank: int, incarnation: int) -> bool:
        """Whether what this incarnation sends is to be believed."""
        book = self.books.get(rank)
        return book is not None and book.incarnation == incarnation

    @property
    def num_engines(self) -> int:
        """How many engines there are to be: the view's word, or the configuration's before it."""
        told = self.cluster.num_engines if self.cluster is not None else 0
        return told or self._configured_engines

    @property
    def are_all_engines_dead(self) -> bool:
        """Whether the newest view holds every engine dead, and has none that is starting."""
        engines = self.cluster.engines if self.cluster is not None else []
        return bool(engines) and all(entry.state is EngineState.DEAD for entry in engines)

    def is_announced(self, rank: int, incarnation: int, now: float) -> bool:
        """Whether the coordinator knows of this incarnation; where there is none, everybody is believed.

        An engine reports to it long before it says hello here, so it can only be some moments late.
        """
        if self.cluster is None or self._is_coordinator_away(now):
            return True
        return any(
            entry.rank == rank and entry.incarnation >= incarnation
            for entry in self.cluster.engines
        )

    # ── what comes in ──

    def welcome(self, hello: EngineHello, now: float) -> EngineDeath | None:
        """An engine has connected. Returns whom it replaces, if anybody.

        A second hello of one incarnation means that the engine has dropped this frontend and with
        it all its requests, as if it had died and come back.
        """
        if hello.incarnation <= self._newest_dead.get(hello.rank, 0):
            return None
        replaced = self.books.get(hello.rank)
        if replaced is not None and replaced.incarnation > hello.incarnation:
            return None
        self.books[hello.rank] = EngineBook(hello, self._frontend, known_since=now)
        if replaced is None:
            return None
        if replaced.incarnation < hello.incarnation:
            self.unexplained[replaced.rank, replaced.incarnation] = now
        return EngineDeath(replaced.rank, replaced.incarnation, "replaced", fault=False)

    def accept_report(self, report: LoadReport, made_at: float) -> None:
        """Take in a load report, whichever way it came."""
        if self.is_current(report.rank, report.incarnation):
            self.books[report.rank].accept(report, made_at)

    def accept_block_events(self, events: BlockEvents) -> None:
        """Take in what a cache has gained and lost; that of other incarnations is of no use."""
        if self.is_current(events.rank, events.incarnation):
            self.books[events.rank].prefix.apply(events)

    def apply(self, view: ClusterView, now: float) -> list[EngineDeath]:
        """Take in a view of the coordinator. Returns the deaths that are news, or explained now."""
        self.cluster, self._viewed_at = view, now
        self.is_draining = view.draining
        deaths = [self.bury(death, now) for death in view.deaths]
        deaths += [self._apply_entry(entry, now) for entry in view.engines]
        newest = {entry.rank: entry.incarnation for entry in view.engines}
        self._states = {
            key: state for key, state in self._states.items() if newest.get(key[0]) == key[1]
        }
        return [death for death in deaths if death is not None]

    def _apply_entry(self, entry: EngineEntry, now: float) -> EngineDeath | None:
        self._states[entry.rank, entry.incarnation] = entry.state
        book = self.books.get(entry.rank)
        if entry.state is EngineState.DEAD:
            if (entry.rank, entry.incarnation) in self.unexplained:
                return None  # only an obituary says who was there
            return self.bury(
                EngineDeath(entry.rank, entry.incarnation, entry.cause, entry.fault), now
            )
        if book is not None and book.incarnation < entry.incarnation:
            return self._bury_unexplained(book, "replaced", now)
        if entry.report is not None:
            self.accept_report(entry.report, now - entry.report_age_seconds)
        return None

    def bury(self, death: EngineDeath, now: float) -> EngineDeath | None:
        """Hold this incarnation dead, and all before it, for good. None if that is no news.

        It is also news if the death was known, and only now its cause is.
        """
        rank, incarnation = death.rank, death.incarnation
        if incarnation > self._newest_dead.get(rank, 0):
            self._newest_dead[rank] = incarnation
        if self.unexplained.pop((rank, incarnation), None) is not None:
            return death
        book = self.books.get(rank)
        if book is None or book.incarnation > incarnation:
            return None
        if book.incarnation < incarnation:  # of its own end nothing is known
            return self._bury_unexplained(book, "replaced", now)
        del self.books[rank]
        return death

    def _bury_unexplained(self, book: EngineBook, cause: str, now: float) -> EngineDeath:
        """Nobody is to blame, as far as is known; the true cause may come later."""
        rank, incarnation = book.rank, book.incarnation
        del self.books[rank]
        self._newest_dead[rank] = max(incarnation, self._newest_dead.get(rank, 0))
        self.unexplained[rank, incarnation] = now
        return EngineDeath(rank, incarnation, cause, fault=False)

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
        self.unexplained = {
            key: at for key, at in self.unexplained.items() if now - at < OBITUARY_SECONDS
        }
        if not self._is_coordinator_away(now):
            return []
        lost = [
            book
            for book in self.books.values()
            if book.disconnected_at is not None
            and now - book.disconnected_at > self._suspect_after_seconds
            and now - book.heard_at > self._suspect_after_seconds
        ]
        return [self._bury_unexplained(book, "connection lost", now) for book in lost]

    # ── what follows ──

    def view_age_seconds(self, now: float) -> float:
        """How old the coordinator's newest word is."""
        return now - self._viewed_at

    def _is_coordinator_away(self, now: float) -> bool:
        return self.view_age_seconds(now) > STALE_VIEW_SECONDS

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

    def resyncs_due(self, now: float) -> list[EngineBook]:
        """Engines to ask for their whole caches; nobody while the coordinator could not pass them on."""
        if self._is_coordinator_away(now):
            return []
        return [book for book in self.books.values() if book.is_resync_due(now)]

    def counts(self, now: float) -> EngineCounts:
        """How many engines there are, and how many of them serve."""
        entries = self.cluster.engines if self.cluster is not None else []
        return EngineCounts(
            self.num_engines,
            ready=sum(self.may_choose(book, now) for book in self.books.values()),
            draining=sum(entry.state is EngineState.DRAINING for entry in entries),
            parked=sum(entry.parked for entry in entries),
        )

    @property
    def num_frontends(self) -> int:
        """Frontends that are alive, this one at least."""
        frontends = self.cluster.frontends if self.cluster is not None else []
        return max(1, sum(frontend.alive for frontend in frontends))

    def routing_view(self, now: float) -> RoutingView:
        """The engines to choose from."""
        return RoutingView(
            [book.load(now) for book in self.books.values() if self.may_choose(book, now)],
            self.num_frontends,
            now,
        )
