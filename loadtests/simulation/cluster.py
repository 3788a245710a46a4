"""A whole cluster on a fake clock: frontends, engines, and what travels between them."""

import random
from collections.abc import Callable, Sequence

from cluster.wire.messages import BlockEvents, LoadReport
from frontend.balancer import Balancer
from loadtests.simulation.agenda import Agenda
from loadtests.simulation.cost_model import CostModel
from loadtests.simulation.engine_process import EngineProcess
from loadtests.simulation.engine_request import EngineRequest
from loadtests.simulation.frontend_model import FrontendModel
from loadtests.simulation.outcome import Tally
from loadtests.simulation.request import ClientRequest
from loadtests.simulation.scenario import Fault, Scenario

ORACLE, ORACLE_POLICY = "oracle", "marginal-cost"
"""The bound: the default policy with one set of books for all traffic, and nothing old in them."""
SLOW_FACTOR = 2.0
DETECTION_SECONDS = 0.1
"""From the death of an engine until frontends hold it dead."""
HANG_VERDICT_SECONDS = 3.0
HANG_SECONDS = 5.0
"""From the moment when an engine stands still until a new one serves in its place."""
FAULT_BEGINS, FAULT_ENDS = 1 / 3, 1 / 2
"""Shares of the run."""
TRANSIT_SECONDS = 0.0005
"""From an engine to a frontend, as on one machine."""
LOOK_SECONDS = 0.1
"""How often imbalance is looked at."""


class SimulatedCluster:
    """Runs one scenario from its first request to the end of the last."""

    def __init__(self, scenario: Scenario, requests: Sequence[ClientRequest]) -> None:
        self.tally = Tally()
        self.came: list[ClientRequest] = []
        """All requests that have come, later turns of sessions too."""
        self._scenario = scenario
        self._agenda = Agenda()
        self._random = random.Random(f"frontends {scenario.seed}")
        self._engines: dict[int, EngineProcess] = {}
        """The newest incarnation of each."""
        self._incarnations: list[EngineProcess] = []
        self._num_open = len(requests)
        self._is_oracle = scenario.policy == ORACLE
        self._frontends = self._make_frontends()
        for rank in range(scenario.engines):
            self._start_engine(rank, incarnation=1)
        self._plan(requests)

    def run(self) -> None:
        """Let all of it happen."""
        self._agenda.run(lambda: self._num_open == 0)
        self.tally.preemptions = sum(e.model.num_preemptions for e in self._incarnations)

    def _make_frontends(self) -> list[FrontendModel]:
        scenario = self._scenario
        number = 1 if self._is_oracle else len(scenario.frontend_shares)
        policy = ORACLE_POLICY if self._is_oracle else scenario.policy
        return [
            FrontendModel(
                index,
                number,
                Balancer(policy, random.Random(f"balancer {scenario.seed} {index}")),
                self._send,
                self.tally,
                scenario.holds_back,
            )
            for index in range(number)
        ]

    def _plan(self, requests: Sequence[ClientRequest]) -> None:
        scenario, agenda = self._scenario, self._agenda
        for request in requests:
            agenda.at(request.arrived_at, lambda request=request: self._arrive(request))  # type: ignore[misc]
        if not self._is_oracle:
            agenda.at(scenario.age_seconds, self._take_snapshot)
        agenda.at(LOOK_SECONDS, self._look)
        begins = FAULT_BEGINS * scenario.seconds
        match scenario.fault:
            case Fault.EQUAL | Fault.SLOW:
                pass
            case Fault.DEAD:
                agenda.at(begins, lambda: self._kill(0))
                agenda.at(begins + DETECTION_SECONDS, lambda: self._bury(0))
                agenda.at(FAULT_ENDS * scenario.seconds, lambda: self._start_engine(0, 2))
            case Fault.HUNG:
                agenda.at(begins, lambda: self._hang(0))
                agenda.at(begins + HANG_VERDICT_SECONDS, lambda: self._kill(0))
                agenda.at(begins + HANG_VERDICT_SECONDS, lambda: self._bury(0))
                agenda.at(begins + HANG_SECONDS, lambda: self._start_engine(0, 2))

    # ── requests ──

    def _arrive(self, request: ClientRequest) -> None:
        self.came.append(request)
        if request.prompt_tokens + request.output_tokens > self._scenario.cost_model.max_tokens:
            self.tally.refused += 1
            self._close()
            return
        frontend = self._frontends[0]
        if len(self._frontends) > 1:
            frontend = self._random.choices(self._frontends, self._scenario.frontend_shares)[0]
        frontend.submit(request, self._agenda.now)

    def _end(self, request: ClientRequest) -> None:
        now = self._agenda.now
        request.ended_at = now
        later = request.next_turn
        if later is not None and (arrives_at := now + later.think_seconds) < self._scenario.seconds:
            later.arrived_at = arrives_at
            self._num_open += 1
            self._agenda.at(arrives_at, lambda: self._arrive(later))
        self._close()

    def _close(self) -> None:
        self._num_open -= 1

    # ── engines ──

    def _start_engine(self, rank: int, incarnation: int) -> None:
        scenario = self._scenario
        cost: CostModel = scenario.cost_model
        if scenario.fault is Fault.SLOW and rank == 0:
            cost = cost.slowed(SLOW_FACTOR)
        engine = EngineProcess(
            rank, incarnation, cost, scenario.engines, scenario.prefill_speed_error
        )
        self._engines[rank] = engine
        self._incarnations.append(engine)
        now = self._agenda.now
        for frontend in self._frontends:
            frontend.welcome(engine.hello, now)
            frontend.accept(engine.report(now), now)
            frontend.serve(now)

    def _send(self, rank: int, request: EngineRequest) -> None:
        engine = self._engines[rank]
        if engine.is_alive:
            engine.receive(request)
            self._plan_news(engine, engine.news.on_arrival)
            if not engine.is_computing and not engine.is_hung:
                self._begin_step(engine)

    def _begin_step(self, engine: EngineProcess) -> None:
        now = self._agenda.now
        seconds = engine.begin_step(now)
        if seconds is not None:
            self._agenda.at(now + seconds, lambda: self._end_step(engine))

    def _end_step(self, engine: EngineProcess) -> None:
        if not engine.is_alive or engine.is_hung:
            return
        now = self._agenda.now
        listeners = engine.listeners if self._scenario.reports_with_outputs else ()
        result = engine.end_step(now)
        engine.is_computing = False
        for request in result.began:
            self._take_first_token(engine, request)
        for request in result.ended:
            self._frontends[request.frontend_index].on_ended(engine.rank, request.client)
            self._end(request.client)
        told = {request.frontend_index for request in result.began} | set(listeners)
        told |= {request.frontend_index for request in result.ended}
        self._begin_step(engine)
        if self._is_oracle:
            self._tell_oracle(engine)
        elif self._scenario.reports_with_outputs:
            report = engine.report(now)
            for index in told:
                self._frontends[index].accept(report, now)
            self._plan_news(engine, engine.news.on_step)
        for index in sorted(told):
            self._frontends[index].serve(now)

    def _take_first_token(self, engine: EngineProcess, request: EngineRequest) -> None:
        client = request.client
        self._frontends[request.frontend_index].on_began(engine.rank, client)
        if client.first_token_at is None:
            client.first_token_at = self._agenda.now
            client.cached_tokens = request.cached_tokens

    # ── news ──

    def _plan_news(self, engine: EngineProcess, plan: Callable[[float], None]) -> None:
        """Let the engine tell all frontends how it is, when `plan` has it do so."""
        if self._is_oracle or not self._scenario.reports_with_outputs:
            return
        planned_before = engine.news.due_at
        plan(self._agenda.now)
        if (due_at := engine.news.due_at) < planned_before:
            self._agenda.at(due_at, lambda: self._tell_news(engine, due_at))

    def _tell_news(self, engine: EngineProcess, due_at: float) -> None:
        if engine.news.due_at == due_at and engine.is_alive and not engine.is_hung:
            engine.news.told(due_at)
            report = engine.report(due_at)
            self._agenda.at(due_at + TRANSIT_SECONDS, lambda: self._deliver([], [report], due_at))

    def _tell_oracle(self, engine: EngineProcess) -> None:
        now = self._agenda.now
        (frontend,) = self._frontends
        events = engine.take_block_events()
        if events is not None:
            frontend.apply(events)
        frontend.accept(engine.report(now), now)

    def _take_snapshot(self) -> None:
        """What the coordinator passes on: the newest of each engine, so much later."""
        made_at, age = self._agenda.now, self._scenario.age_seconds
        alive = [engine for engine in self._engines.values() if engine.is_alive]
        events = [news for engine in alive if (news := engine.take_block_events()) is not None]
        reports = [engine.report(made_at) for engine in alive]
        self._agenda.at(made_at + age, lambda: self._deliver(events, reports, made_at))
        self._agenda.at(made_at + age, self._take_snapshot)

    def _deliver(
        self, events: Sequence[BlockEvents], reports: Sequence[LoadReport], made_at: float
    ) -> None:
        for frontend in self._frontends:
            for news in events:
                frontend.apply(news)
            for report in reports:
                frontend.accept(report, made_at)
            frontend.serve(self._agenda.now)

    def _look(self) -> None:
        if self._agenda.now > self._scenario.seconds:
            return
        counts = [engine.num_requests for engine in self._engines.values() if engine.is_alive]
        if sum(counts) and len(counts) > 1:
            mean = sum(counts) / len(counts)
            self.tally.imbalances.append((max(counts) - min(counts)) / mean)
        self._agenda.at(self._agenda.now + LOOK_SECONDS, self._look)

    # ── faults ──

    def _hang(self, rank: int) -> None:
        self._engines[rank].is_hung = True

    def _kill(self, rank: int) -> None:
        self._engines[rank].is_alive = False

    def _bury(self, rank: int) -> None:
        engine = self._engines[rank]
        for request in engine.model.running:
            request.client.num_outputs = engine.model.outputs_of(request)
        for request in engine.model.waiting:
            request.client.num_outputs = request.num_outputs
        for frontend in self._frontends:
            for client in frontend.lose(rank, self._agenda.now):
                client.num_moves += client.num_outputs > 0
