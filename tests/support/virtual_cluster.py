"""A cluster in virtual time: real engine cores, books, lines and balancers, but no process, socket or clock."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from cluster.config import ClusterConfig, EngineConfig, FrontendConfig
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    AddRequest,
    ClusterView,
    EngineCoreOutput,
    EngineEntry,
    EngineHello,
    EnginePhase,
    EngineState,
    FrontendEntry,
    LoadReport,
)
from engine.core import EngineCore
from engine.scheduling.output import RunResult, SchedulerOutput
from frontend.balancer import Balancer
from frontend.cluster_view import LiveView
from frontend.in_flight import InFlight
from frontend.routing.view import RoutedRequest
from frontend.tenant_shares import TenantShares
from frontend.waiting_line import WaitingLine
from tests.support.simulated_runner import Computation
from tests.support.waiting_requests import waiting_request

LINK_SECONDS = 0.001
REPORT_SECONDS = 0.05
STEP_SECONDS = 0.02
PREFILL_TOKENS_PER_SECOND = 20_000.0
MAX_MODEL_LEN = 4096
NUM_BLOCKS = 20_000


class AnyToken:
    """A model that always says the same."""

    def submit(self, work: SchedulerOutput) -> Computation:
        """A token for each that samples one."""
        results = [RunResult(token_id=1 if run.samples else None) for run in work.scheduled]
        return Computation(lambda: results)


@dataclass(frozen=True)
class Asked:
    """What one client asked for, and when its answer came."""

    tenant: str
    sent_at: float
    ttft_seconds: float
    num_tokens: int


@dataclass(frozen=True)
class Client:
    """One that asks again a while after each answer."""

    tenant: str
    prompt_tokens: tuple[int, int]
    output_tokens: tuple[int, int]
    longest_pause_seconds: float = 0.0


class VirtualEngine:
    """One replica: takes in between two steps what has come, and reports after each."""

    def __init__(self, rank: int, config: EngineConfig, cluster: "VirtualCluster") -> None:
        self.hello = EngineHello(
            PROTOCOL_VERSION, rank, 1, "model", MAX_MODEL_LEN, config.block_size, NUM_BLOCKS,
            config.max_num_seqs, "seed",
        )  # fmt: skip
        self._core = EngineCore(config, NUM_BLOCKS, MAX_MODEL_LEN, AnyToken(), 10)
        self._cluster = cluster
        self._inbox: list[AddRequest] = []
        self._is_stepping = False
        self._acknowledged: dict[int, int] = {}
        self._report_seq = 0
        self.tokens_made = 0

    def receive(self, message: AddRequest) -> None:
        """A request has come; an idle engine begins with it."""
        self._inbox.append(message)
        if not self._is_stepping:
            self._step()

    def _step(self) -> None:
        now = self._cluster.now
        for message in self._inbox:
            assert self._core.add_request(message, now) is None
            self._acknowledged[message.frontend_index] = message.dispatch_seq
        self._inbox.clear()
        self._is_stepping = self._core.has_work
        if not self._is_stepping:
            return
        work = self._core.begin_step(now)
        seconds = STEP_SECONDS + work.shape.prefill_tokens / PREFILL_TOKENS_PER_SECOND
        self._cluster.after(seconds, lambda: self._finish(work))

    def _finish(self, work: SchedulerOutput) -> None:
        outputs = self._core.finish_step(work, self._core.submit(work).result(), self._cluster.now)
        self.tokens_made += sum(len(o.token_ids) for sent in outputs.values() for o in sent)
        report = self.report()
        for index, of_frontend in outputs.items():
            self._cluster.tell(index, report, of_frontend)
        self._step()

    def report(self) -> LoadReport:
        """The load now."""
        self._report_seq += 1
        stats = self._core.stats()
        return LoadReport(
            self.hello.rank, 1, self._report_seq, EnginePhase.READY, step=stats.step,
            waiting=stats.waiting, running=stats.running,
            waiting_prompt_tokens=stats.waiting_prompt_tokens, running_tokens=stats.running_tokens,
            prefill_tokens_per_second=stats.speeds.prefill_tokens_per_second,
            unpassed_prompt_tokens=stats.unpassed_prompt_tokens,
            acknowledged=[(index, 1, seq) for index, seq in self._acknowledged.items()],
        )  # fmt: skip


class VirtualFrontend:
    """What a frontend decides by, and the requests that it has in engines."""

    def __init__(self, index: int, config: ClusterConfig, cluster: "VirtualCluster") -> None:
        self.view = LiveView((index, 1), 1.0, 0.0)
        self.in_flight: dict[str, InFlight] = {}
        self._cluster = cluster
        self._index = index
        self._line = WaitingLine(config.frontend)
        self._shares = TenantShares()
        self._balancer = Balancer("marginal-cost", random.Random(index))

    def take_on(self, in_flight: InFlight) -> None:
        """Send a request, or let it wait."""
        self.in_flight[in_flight.request.request_id] = in_flight
        self._line.join(in_flight)
        self.serve()

    def receive(self, report: LoadReport, outputs: list[EngineCoreOutput]) -> None:
        """An engine's outputs, or only its report."""
        book = self.view.books[report.rank]
        book.accept(report, self._cluster.now)
        for output in outputs:
            in_flight = self.in_flight[output.request_id]
            book.begin(output.request_id)
            if output.finish_reason is not None:
                book.settle(output.request_id)
                self._shares.release(output.request_id)
                del self.in_flight[output.request_id]
            self._cluster.on_output(in_flight, output)
        self.serve()

    def serve(self) -> None:
        """Send what may be sent."""
        self._line.serve(self._dispatch, lambda: bool(self._ranks_with_room()), self._may_overtake)

    def _ranks_with_room(self) -> list[int]:
        now, num_frontends = self._cluster.now, self.view.num_frontends
        return [r for r, book in self.view.books.items() if book.has_room(num_frontends, now)]

    def _ranks_with_free_places(self) -> list[int]:
        reports = {rank: book.report for rank, book in self.view.books.items()}
        return [
            rank
            for rank, report in reports.items()
            if report is None or report.running < self.view.books[rank].hello.max_num_seqs
        ]

    def _may_overtake(self, tenant: str) -> bool:
        places = sum(book.hello.max_num_seqs for book in self.view.books.values())
        return self._shares.holds_little(tenant, places / self.view.num_frontends)

    def _dispatch(self, in_flight: InFlight) -> bool:
        request = in_flight.request
        now, ranks = self._cluster.now, self._ranks_with_room()
        if self._may_overtake(request.tenant):
            ranks = self._ranks_with_free_places() or list(self.view.books)
        view = self.view.routing_view(now)
        view = view._replace(loads=[load for load in view.loads if load.rank in ranks])
        choice = self._balancer.choose(view, RoutedRequest(in_flight.num_context_tokens))
        if choice is None:
            return False
        book = self.view.books[choice.rank]
        seq = book.dispatch(request.request_id, in_flight.num_context_tokens)
        message = in_flight.next_attempt(self._index, 1, seq, 0, now)
        in_flight.assign(book)
        self._shares.take(request.request_id, request.tenant)
        self._cluster.send(choice.rank, message)
        return True


class VirtualCluster:
    """Engines, frontends and clients; everything happens in the order of its time."""

    def __init__(
        self, num_engines: int, num_frontends: int, keys: list[str], seed: int = 1, **settings: int
    ) -> None:
        config = ClusterConfig(
            engine=EngineConfig(**settings),  # type: ignore[arg-type]  # all of these are numbers
            frontend=FrontendConfig(api_key=keys),
        )
        self.now = 0.0
        self._has_tenants = len(keys) > 1
        self.asked: list[Asked] = []
        self._random = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._clients: dict[str, tuple[Client, float]] = {}
        self._ttft: dict[str, float] = {}
        self.engines = [VirtualEngine(rank, config.engine, self) for rank in range(num_engines)]
        self.frontends = [VirtualFrontend(i, config, self) for i in range(num_frontends)]
        self._tell_views(0)

    def run(self, clients: list[Client], seconds: float) -> None:
        """Let these clients ask for so long, beside those that ask already."""
        for client in clients:
            self.after(self._random.uniform(0, 0.2), lambda client=client: self._ask(client))  # type: ignore[misc]
        until = self.now + seconds
        while self._events and self._events[0][0] <= until:
            self.now, _, happen = heapq.heappop(self._events)
            happen()
        self.now = until

    def after(self, seconds: float, happen: Callable[[], None]) -> None:
        """Let something happen later."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), happen))

    def send(self, rank: int, message: AddRequest) -> None:
        """From a frontend to an engine."""
        self.after(LINK_SECONDS, lambda: self.engines[rank].receive(message))

    def tell(self, index: int, report: LoadReport, outputs: list[EngineCoreOutput]) -> None:
        """From an engine to a frontend."""
        self.after(LINK_SECONDS, lambda: self.frontends[index].receive(report, outputs))

    def on_output(self, in_flight: InFlight, output: EngineCoreOutput) -> None:
        """Tokens have reached a client; after the last it asks again."""
        request_id = in_flight.request.request_id
        client, sent_at = self._clients[request_id]
        self._ttft.setdefault(request_id, self.now - sent_at)
        if output.finish_reason is None:
            return
        del self._clients[request_id]
        ttft = self._ttft.pop(request_id)
        self.asked.append(
            Asked(client.tenant, sent_at, ttft, in_flight.request.sampling.max_tokens)
        )
        pause = self._random.uniform(0, client.longest_pause_seconds)
        self.after(pause, lambda: self._ask(client))

    def _ask(self, client: Client) -> None:
        request_id = f"{client.tenant}-{next(self._order)}"
        self._clients[request_id] = (client, self.now)
        in_flight = waiting_request(
            request_id, client.tenant if self._has_tenants else "", self._random.randint(*client.prompt_tokens),
            self._random.randint(*client.output_tokens), queued_at=self.now,
        )  # fmt: skip
        self._random.choice(self.frontends).take_on(in_flight)

    def _tell_views(self, seq: int) -> None:
        """The coordinator's word, again and again."""
        engines = [
            EngineEntry(e.hello.rank, 1, EngineState.READY, report=e.report()) for e in self.engines
        ]
        frontends = [FrontendEntry(i, 1, alive=True) for i in range(len(self.frontends))]
        view = ClusterView(1, seq, False, engines, frontends)
        for frontend in self.frontends:
            frontend.view.apply(view, self.now)
            if not seq:
                for engine in self.engines:
                    frontend.view.welcome(engine.hello, self.now)
            frontend.serve()
        self.after(REPORT_SECONDS, lambda: self._tell_views(seq + 1))
