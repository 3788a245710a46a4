"""Engines are never idle because frontends hold requests back: real cores, books and lines, in virtual time."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import pytest

from cluster.config import EngineConfig, FrontendConfig
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    AddRequest,
    EngineCoreOutput,
    EngineHello,
    EnginePhase,
    LoadReport,
)
from engine.core import EngineCore
from engine.scheduling.output import RunResult, SchedulerOutput
from frontend.engine_book import LEAD_STEPS, EngineBook
from frontend.in_flight import InFlight
from frontend.waiting_line import WaitingLine
from tests.support.simulated_runner import Computation
from tests.support.waiting_requests import waiting_request

LINK_SECONDS = 0.002
REPORT_SECONDS = 0.05
MAX_MODEL_LEN = 1024
REQUESTS_PER_SEQ = 40
MOST_LOSS = 1.1
"""Where answers have a token or two; elsewhere it is next to nothing. The first steps count too."""


class AnyToken:
    """A model that always says the same."""

    def submit(self, work: SchedulerOutput) -> Computation:
        """A token for each that samples one."""
        results = [RunResult(token_id=1 if run.samples else None) for run in work.scheduled]
        return Computation(lambda: results)


@dataclass
class Frontend:
    """A line of requests and the books of one engine, as a frontend has them."""

    index: int
    book: EngineBook
    line: WaitingLine = field(default_factory=lambda: WaitingLine(FrontendConfig()))

    def serve(self, num_frontends: int, now: float, is_held_back: bool) -> list[AddRequest]:
        """What is sent now."""
        sent: list[AddRequest] = []

        def dispatch(in_flight: InFlight) -> bool:
            seq = self.book.dispatch(in_flight.request.request_id, in_flight.num_context_tokens)
            sent.append(in_flight.next_attempt(self.index, 1, seq, 0, now))
            return True

        self.line.serve(
            dispatch, lambda: not is_held_back or self.book.has_room(num_frontends, now)
        )
        return sent


class Simulation:
    """One engine and its frontends; what is sent takes its time, and so does each step."""

    def __init__(self, num_frontends: int, is_held_back: bool, **settings: int) -> None:
        config = EngineConfig(**settings, block_size=16)  # type: ignore[arg-type]  # ints
        self.core = EngineCore(config, 4000, MAX_MODEL_LEN, AnyToken(), 10)
        hello = EngineHello(
            PROTOCOL_VERSION, 0, 1, "model", MAX_MODEL_LEN, 16, 4000, config.max_num_seqs, "seed"
        )
        self.frontends = [Frontend(i, EngineBook(hello, (i, 1))) for i in range(num_frontends)]
        self.is_held_back = is_held_back
        self.now = 0.0
        self.most_waiting = 0
        self.finished = 0
        self._link: list[tuple[float, int, AddRequest]] = []
        self._news: list[tuple[float, int, int, LoadReport, list[EngineCoreOutput]]] = []
        self._order = count()
        self._acknowledged: dict[int, int] = {}
        self._report_seq = 0
        self._reported_at = 0.0

    def run(self) -> float:
        """Seconds until everything has been answered."""
        waiting = sum(len(frontend.line) for frontend in self.frontends)
        while self.finished < waiting:
            self._exchange()
            if not self.core.has_work:
                self._tell_all()
                self.now += 0.001
                continue
            work = self.core.begin_step(self.now)
            results = self.core.submit(work).result()
            self.now += 0.005 + work.shape.num_tokens * 0.0001
            outputs = self.core.finish_step(work, results, self.now)
            self.most_waiting = max(self.most_waiting, self.core.stats().waiting)
            report = self._report()
            for index, of_frontend in outputs.items():
                self._tell(index, report, of_frontend)
            self._tell_all()
        return self.now

    def _exchange(self) -> None:
        """Let everything arrive that has been under way for long enough, in the order of time."""
        while self._news and self._news[0][0] <= self.now:
            at, _, index, report, outputs = heapq.heappop(self._news)
            frontend = self.frontends[index]
            for output in outputs:
                frontend.book.begin(output.request_id)
                if output.finish_reason is not None:
                    frontend.book.settle(output.request_id)
                    self.finished += 1
            frontend.book.accept(report, at)
            self._send(frontend, at)
        for frontend in self.frontends:
            self._send(frontend, self.now)
        while self._link and self._link[0][0] <= self.now:
            _, _, message = heapq.heappop(self._link)
            assert self.core.add_request(message, self.now) is None
            self._acknowledged[message.frontend_index] = message.dispatch_seq

    def _send(self, frontend: Frontend, at: float) -> None:
        for message in frontend.serve(len(self.frontends), at, self.is_held_back):
            heapq.heappush(self._link, (at + LINK_SECONDS, next(self._order), message))

    def _tell_all(self) -> None:
        if self.now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = self.now
            for frontend in self.frontends:
                self._tell(frontend.index, self._report(), [])

    def _tell(self, index: int, report: LoadReport, outputs: list[EngineCoreOutput]) -> None:
        at = self.now + LINK_SECONDS
        heapq.heappush(self._news, (at, next(self._order), index, report, outputs))

    def _report(self) -> LoadReport:
        self._report_seq += 1
        stats = self.core.stats()
        return LoadReport(
            0, 1, self._report_seq, EnginePhase.READY, step=stats.step, waiting=stats.waiting, running=stats.running,
            waiting_prompt_tokens=stats.waiting_prompt_tokens,
            prefill_tokens_per_second=stats.speeds.prefill_tokens_per_second,
            acknowledged=[(index, 1, seq) for index, seq in self._acknowledged.items()],
        )  # fmt: skip


LOADS: dict[str, Callable[[random.Random], tuple[int, int]]] = {
    "mixed": lambda source: (source.randrange(1, 200), source.randrange(1, 100)),
    "short answers": lambda source: (source.randrange(1, 30), source.randrange(1, 4)),
    "long prompts": lambda source: (source.randrange(300, 800), source.randrange(1, 40)),
    "prompts only": lambda source: (source.randrange(8, 64), 1),
}


def simulate(load: str, num_frontends: int, max_num_seqs: int, is_held_back: bool) -> Simulation:
    source = random.Random(1)
    simulation = Simulation(num_frontends, is_held_back, max_num_seqs=max_num_seqs)
    for number in range(REQUESTS_PER_SEQ * max_num_seqs):
        prompt_tokens, output_tokens = LOADS[load](source)
        simulation.frontends[number % num_frontends].line.join(
            waiting_request(str(number), "", prompt_tokens, output_tokens)
        )
    simulation.run()
    return simulation


@pytest.mark.parametrize("num_frontends", [1, 4])
@pytest.mark.parametrize("max_num_seqs", [8, 32])
@pytest.mark.parametrize("load", list(LOADS))
def test_holding_requests_back_costs_an_engine_next_to_nothing(
    load: str, max_num_seqs: int, num_frontends: int
) -> None:
    held_back = simulate(load, num_frontends, max_num_seqs, is_held_back=True)
    at_once = simulate(load, num_frontends, max_num_seqs, is_held_back=False)
    assert held_back.now < MOST_LOSS * at_once.now
    assert held_back.most_waiting <= LEAD_STEPS * max_num_seqs
