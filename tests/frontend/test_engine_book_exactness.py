"""Whatever happens between frontends and an engine, and in whatever order news of it comes: the
engine's newest report, with what a frontend has sent and taken back since, is the truth.

The links are as in production: what a frontend sends and what an engine answers comes in order and
wholly, or one of them is new. What the coordinator passes on may be late, lost, or out of order.
"""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cluster.wire.messages import PROTOCOL_VERSION, EngineHello, EnginePhase, LoadReport
from engine.arrivals import Arrivals, Arrived
from engine.load_reporter import acknowledged_with
from frontend.engine_book import Charge, EngineBook
from frontend.routing.marginal_cost import expected_load

ANY = st.integers(0, 1000)
MOSTLY = st.sampled_from([True, True, True, False, True, True])
Item = TypeVar("Item")


class Sent(NamedTuple):
    """A message of a frontend: a request of so many tokens, or the abort of one."""

    seq: int
    request_id: str
    prompt_tokens: int | None


class ModelEngine:
    """Has messages arrive, takes them in, begins requests, and ends them."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.waiting: dict[str, int] = {}
        self.running: dict[str, int] = {}
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.inbox: list[tuple[ModelFrontend, Sent]] = []
        self.arrivals = Arrivals()
        self.snapshots: dict[int, dict[str, int]] = {}
        """By report_seq: every request that the engine had then, and its tokens."""

    @property
    def requests(self) -> dict[str, int]:
        return self.waiting | self.running

    def receive(self, frontend: "ModelFrontend", message: Sent) -> None:
        """It arrives while a step is under way."""
        self.inbox.append((frontend, message))
        key = (frontend.index, frontend.incarnation)
        self.arrivals.add(Arrived(*key, message.seq, message.prompt_tokens or 0))

    def take_in(self) -> None:
        """The step is over."""
        for frontend, message in self.inbox:
            self.take(frontend, message)
        self.inbox.clear()
        self.arrivals.take_in((index, *known) for index, known in self.acknowledged.items())

    def take(self, frontend: "ModelFrontend", message: Sent) -> None:
        self.acknowledged[frontend.index] = (frontend.incarnation, message.seq)
        if message.prompt_tokens is None:
            self.drop(message.request_id)
        else:
            self.waiting[message.request_id] = message.prompt_tokens

    def drop(self, request_id: str) -> None:
        self.waiting.pop(request_id, None)
        self.running.pop(request_id, None)

    def forget(self, frontend: "ModelFrontend") -> None:
        """It is gone, and with it all that it has asked for."""
        for request_id in self.requests:
            if request_id.startswith(frontend.prefix):
                self.drop(request_id)
        self.inbox = [pair for pair in self.inbox if pair[0] is not frontend]
        self.arrivals.forget(frontend.index, frontend.incarnation)
        self.acknowledged.pop(frontend.index, None)

    def report(self) -> LoadReport:
        seq = len(self.snapshots)
        counted = self.arrivals.counted()
        arrived = {
            message.request_id: message.prompt_tokens or 0
            for frontend, message in self.inbox
            if (frontend.index, frontend.incarnation, message.seq) in {a[:3] for a in counted}
        }
        known = [(index, *known) for index, known in self.acknowledged.items()]
        acknowledged = acknowledged_with(known, counted)
        there = self.requests | arrived
        named = {(index, incarnation): seq for index, incarnation, seq in acknowledged}
        for frontend, message in self.inbox:
            is_named = message.seq <= named.get((frontend.index, frontend.incarnation), 0)
            if is_named and message.prompt_tokens is None:
                there.pop(message.request_id, None)
        self.snapshots[seq] = there
        return LoadReport(
            0, self.incarnation, seq, EnginePhase.READY,
            waiting=len(self.waiting) + len(counted), running=len(self.running),
            waiting_prompt_tokens=sum(self.waiting.values()) + sum(a.context_tokens for a in counted),
            running_tokens=sum(self.running.values()),
            acknowledged=acknowledged,
        )  # fmt: skip


@dataclass
class ModelFrontend:
    """A frontend with its real book, and what travels between it and the engine."""

    index: int
    incarnation: int
    book: EngineBook
    history: list[Sent] = field(default_factory=list)
    """All that it has sent to this incarnation of the engine."""
    link: deque[Sent] = field(default_factory=deque)
    answers: deque[tuple[str, LoadReport]] = field(default_factory=deque)
    """Last outputs of its requests, each with the load after that step."""
    news: list[LoadReport] = field(default_factory=list)
    """Reports on their way by the coordinator."""
    unfinished: dict[str, int] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        return f"{self.index}.{self.incarnation}."

    def send(self, message: Sent) -> None:
        self.history.append(message)
        self.link.append(message)

    def accept(self, report: LoadReport) -> None:
        if report.incarnation == self.book.incarnation:
            self.book.accept(report, made_at=0.0)

    def take_answer(self) -> None:
        request_id, report = self.answers.popleft()
        self.accept(report)
        if self.unfinished.pop(request_id, None) is not None:
            self.book.settle(request_id)
        else:
            self.book.settle_aborted(request_id)

    def truth(self, engine: ModelEngine) -> tuple[dict[str, int], dict[str, int]]:
        """All requests there, as of the newest report and what was sent after that.

        And own requests that had ended by themselves as of that report, when their abort, which it
        does not know of, set out: they are taken off twice until their last output comes.
        """
        report = self.book.report
        there = dict(engine.snapshots[report.report_seq]) if report is not None else {}
        known = {
            (index, incarnation): seq
            for index, incarnation, seq in (report.acknowledged if report is not None else [])
        }
        on_their_way = {request_id for request_id, _ in self.answers}
        crossed: dict[str, int] = {}
        tokens = {m.request_id: m.prompt_tokens for m in self.history if m.prompt_tokens}
        for message in self.history:
            if message.seq <= known.get((self.index, self.incarnation), 0):
                continue
            if message.prompt_tokens is not None:
                there[message.request_id] = message.prompt_tokens
            elif there.pop(message.request_id, None) is None and message.request_id in on_their_way:
                crossed[message.request_id] = tokens[message.request_id]
        return there, crossed


class ExactBooks(RuleBasedStateMachine):
    """Two frontends and one engine, under any interleaving of all that can happen."""

    def __init__(self) -> None:
        super().__init__()
        self.num_requests = 0
        self.engine = ModelEngine(1)
        self.frontends = [self.new_frontend(index, 1, []) for index in (0, 1)]

    def new_frontend(self, index: int, incarnation: int, news: list[LoadReport]) -> ModelFrontend:
        """As the engine and a frontend meet for the first time; old news may still be on their way."""
        hello = EngineHello(
            PROTOCOL_VERSION, 0, self.engine.incarnation, "model", 10**6, 16, 10**6, 8, "seed"
        )
        book = EngineBook(hello, (index, incarnation))
        return ModelFrontend(index, incarnation, book, news=news)

    def report(self, is_heard_at_once: bool) -> None:
        report = self.engine.report()
        for frontend in self.frontends:
            frontend.news.append(report)
            if is_heard_at_once:
                frontend.accept(report)  # and once more, later

    # ── what frontends do ──

    @rule(index=st.integers(0, 1), prompt_tokens=st.integers(1, 100), is_taken=MOSTLY)
    def dispatch(self, index: int, prompt_tokens: int, is_taken: bool) -> None:
        frontend = self.frontends[index]
        self.num_requests += 1
        request_id = f"{frontend.prefix}{self.num_requests}"
        seq = frontend.book.dispatch(request_id, prompt_tokens)
        if not is_taken:
            frontend.book.undo_dispatch(request_id)
            return
        frontend.unfinished[request_id] = prompt_tokens
        frontend.send(Sent(seq, request_id, prompt_tokens))

    @precondition(lambda self: self.frontends[0].unfinished or self.frontends[1].unfinished)
    @rule(which=ANY, has_begun=st.booleans())
    def abort(self, which: int, has_begun: bool) -> None:
        frontend, request_id = one_of(which, self.frontends, lambda frontend: frontend.unfinished)
        del frontend.unfinished[request_id]
        frontend.send(Sent(frontend.book.withdraw(request_id, has_begun), request_id, None))

    @precondition(lambda self: self.frontends[0].answers or self.frontends[1].answers)
    @rule(which=ANY)
    def an_answer_arrives(self, which: int) -> None:
        frontend, _ = one_of(which, self.frontends, lambda frontend: frontend.answers)
        frontend.take_answer()

    @precondition(lambda self: self.frontends[0].news or self.frontends[1].news)
    @rule(which=ANY, fate=st.sampled_from(["arrives", "arrives, and will again", "is lost"]))
    def some_news(self, which: int, fate: str) -> None:
        """Not the oldest first."""
        frontend, report = one_of(which, self.frontends, lambda frontend: frontend.news)
        if fate != "is lost":
            frontend.accept(report)
        if fate != "arrives, and will again":
            frontend.news.remove(report)

    # ── what the engine does ──

    @precondition(lambda self: self.frontends[0].link or self.frontends[1].link)
    @rule(which=ANY, reports=st.booleans(), is_heard=st.booleans())
    def a_message_arrives_at_the_engine(self, which: int, reports: bool, is_heard: bool) -> None:
        frontend, _ = one_of(which, self.frontends, lambda frontend: frontend.link)
        self.engine.receive(frontend, frontend.link.popleft())
        if reports:
            self.report(is_heard)

    @precondition(lambda self: self.engine.inbox)
    @rule(reports=st.booleans(), is_heard=st.booleans())
    def the_engine_takes_in_what_has_arrived(self, reports: bool, is_heard: bool) -> None:
        self.engine.take_in()
        if reports:
            self.report(is_heard)

    @precondition(lambda self: self.engine.requests)
    @rule(which=ANY, ends=st.booleans(), reports=st.booleans(), is_heard=st.booleans())
    def the_engine_computes(self, which: int, ends: bool, reports: bool, is_heard: bool) -> None:
        """A step begins a request, or ends it."""
        request_id = list(self.engine.requests)[which % len(self.engine.requests)]
        tokens = self.engine.requests[request_id]
        self.engine.drop(request_id)
        if not ends:
            self.engine.running[request_id] = tokens
        for frontend in self.frontends:
            if ends and request_id.startswith(frontend.prefix):
                frontend.answers.append((request_id, self.engine.report()))
        if reports:
            self.report(is_heard)

    # ── what happens seldom ──

    @precondition(lambda self: len(self.engine.snapshots) >= 4)
    @rule(
        what=st.sampled_from(
            ["nothing", "frontend 0", "nothing", "frontend 1", "engine", "nothing"]
        )
    )
    def something_restarts_now_and_then(self, what: str) -> None:
        if what == "engine":
            self.engine = ModelEngine(self.engine.incarnation + 1)
            self.frontends = [
                self.new_frontend(old.index, old.incarnation, old.news) for old in self.frontends
            ]
        elif what != "nothing":
            index = int(what.removeprefix("frontend "))
            old = self.frontends[index]
            self.engine.forget(old)
            self.frontends[index] = self.new_frontend(index, old.incarnation + 1, old.news)

    @precondition(lambda self: len(self.engine.snapshots) >= 4)
    @rule(is_late=MOSTLY)
    def everything_arrives_now_and_then(self, is_late: bool) -> None:
        if is_late:
            return
        for frontend in self.frontends:
            while frontend.link:
                self.engine.receive(frontend, frontend.link.popleft())
        self.engine.take_in()
        self.report(is_heard_at_once=True)
        for frontend in self.frontends:
            while frontend.answers:
                frontend.take_answer()
            load = frontend.book.load(now=0.0)
            assert (load.sent, load.withdrawn) == (Charge(), Charge())
            assert expected_load(load, 1)[1] == len(self.engine.requests)

    # ── what always holds ──

    @invariant()
    def the_books_are_exact(self) -> None:
        for frontend in self.frontends:
            there, crossed = frontend.truth(self.engine)
            load, report = frontend.book.load(now=0.0), frontend.book.report
            requests = load.sent.requests - load.withdrawn.requests
            tokens = load.sent.prompt_tokens - load.withdrawn.prompt_tokens
            if report is not None:
                requests += report.waiting + report.running
                tokens += report.waiting_prompt_tokens + report.running_tokens
            assert requests == len(there) - len(crossed)
            assert tokens == sum(there.values()) - sum(crossed.values())
            assert expected_load(load, 1)[1:] == (max(0, requests), max(0, tokens))

    @invariant()
    def own_requests_are_those_that_have_not_ended(self) -> None:
        for frontend in self.frontends:
            assert frontend.book.in_flight == len(frontend.unfinished)


def one_of(
    which: int, frontends: list[ModelFrontend], those: Callable[[ModelFrontend], Collection[Item]]
) -> tuple[ModelFrontend, Item]:
    """One of all items of all frontends."""
    pairs = [(frontend, item) for frontend in frontends for item in those(frontend)]
    return pairs[which % len(pairs)]


ExactBooks.TestCase.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None
)  # fmt: skip
TestBooksAreExactUnderAnyInterleaving = ExactBooks.TestCase
