"""Engines, frontends and poisonous requests in one number-driven world: no processes, no time."""

from dataclasses import dataclass, field
from random import Random

from cluster.wire.messages import EngineDeath, FlightRecord
from frontend.suspicion import Suspicions, Verdict, Victim

ENGINE_PLACES = 6


@dataclass(eq=False)
class SimulatedRequest:
    """One request; `strikes_at` is the output position at which it kills, -1 for in prefill."""

    request_id: str
    length: int
    strikes_at: int | None
    num_outputs: int = 0
    outputs_at_dispatch: int = 0
    chunks_left: int = 0
    isolated_until: int = 0
    """As the engine was told."""
    verdict: Verdict | None = None
    """What ended it, if not its own end."""
    num_kills: int = 0

    @property
    def is_done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.verdict is not None or self.num_outputs >= self.length

    @property
    def is_isolated(self) -> bool:
        """Whether an engine is to compute it alone."""
        return self.num_outputs < self.isolated_until

    @property
    def is_striking(self) -> bool:
        """Whether a step that computes it now ends in death."""
        if self.strikes_at == -1:
            return self.chunks_left > 0
        return self.strikes_at == self.num_outputs and self.chunks_left <= 1


@dataclass(eq=False)
class SimulatedFrontend:
    """Judges by `Suspicions`, as the real one does."""

    max_migrations: int
    waiting: list[SimulatedRequest] = field(default_factory=list)
    unjudged: list[tuple[EngineDeath, list[tuple[SimulatedRequest, bool, bool]]]] = field(
        default_factory=list
    )

    def __post_init__(self) -> None:
        self.suspicions = Suspicions(self.max_migrations)

    def judge_all(self) -> list[tuple[int, int]]:
        """Judge what is unjudged; returns the deaths that are explained by that."""
        explained: list[tuple[int, int]] = []
        for death, lost in self.unjudged:
            live = [loss for loss in lost if not loss[0].is_done]
            verdicts = self.suspicions.judge(
                death,
                [Victim(r.request_id, r.num_outputs, begun, alone) for r, begun, alone in live],
            )
            for request, _, _ in live:
                verdict = verdicts[request.request_id]
                if verdict is Verdict.IS_CONVICTED:
                    explained += self.suspicions.deaths_of(request.request_id)
                if verdict in (Verdict.IS_CONVICTED, Verdict.FAILS):
                    request.verdict = verdict
        self.unjudged = []
        return explained


@dataclass(eq=False)
class SimulatedEngine:
    """One engine's place; requests are with the frontend that sent them."""

    incarnation: int = 1
    rounds_until_ready: int = 0
    is_turn_of_isolated: bool = True
    requests: dict[SimulatedRequest, SimulatedFrontend] = field(default_factory=dict)


class PoisonedCluster:
    """Runs rounds: dispatch, a step of each engine, deaths and their judgement."""

    def __init__(
        self,
        seed: int,
        num_engines: int,
        num_frontends: int,
        *,
        outside_kills: float = 0.0,
        late: float = 0.0,
        unrecorded: float = 0.0,
        max_migrations: int = 2,
    ) -> None:
        self._random = Random(seed)
        self.engines = [SimulatedEngine() for _ in range(num_engines)]
        self.frontends = [SimulatedFrontend(max_migrations) for _ in range(num_frontends)]
        self.requests: list[SimulatedRequest] = []
        self.num_fault_deaths = 0
        self._outside_kills, self._late, self._unrecorded = outside_kills, late, unrecorded

    def submit(self, length: int, strikes_at: int | None = None) -> SimulatedRequest:
        """A new request at some frontend."""
        request = SimulatedRequest(f"r{len(self.requests)}", length, strikes_at)
        self.requests.append(request)
        self._random.choice(self.frontends).waiting.append(request)
        return request

    def run_round(self) -> None:
        """One step of everybody."""
        for frontend in self.frontends:
            self._dispatch(frontend)
        for rank, engine in enumerate(self.engines):
            if engine.rounds_until_ready:
                engine.rounds_until_ready -= 1
            elif self._random.random() < self._outside_kills:
                self._die(rank, EngineDeath(rank, engine.incarnation, "SIGKILL", False))
            else:
                self._step(rank)
        for frontend in self.frontends:
            if frontend.unjudged and self._random.random() >= self._late:
                explained = frontend.judge_all()
                for other in self.frontends:
                    other.suspicions.acquit(explained)
            frontend.waiting = [r for r in frontend.waiting if not r.is_done]

    def _dispatch(self, frontend: SimulatedFrontend) -> None:
        for request in list(frontend.waiting):
            isolated_until = frontend.suspicions.isolated_until(request.request_id)
            places = [
                engine
                for engine in self.engines
                if not engine.rounds_until_ready
                and len(engine.requests) < ENGINE_PLACES
                and not (isolated_until and self._has_suspect(engine, frontend))
            ]
            if places:
                frontend.waiting.remove(request)
                request.outputs_at_dispatch = request.num_outputs
                request.chunks_left = self._random.randint(1, 3)
                request.isolated_until = isolated_until
                self._random.choice(places).requests[request] = frontend

    def _has_suspect(self, engine: SimulatedEngine, frontend: SimulatedFrontend) -> bool:
        return any(
            owner is frontend and frontend.suspicions.isolated_until(request.request_id)
            for request, owner in engine.requests.items()
        )

    def _step(self, rank: int) -> None:
        engine = self.engines[rank]
        for request in [request for request in engine.requests if request.is_done]:
            del engine.requests[request]
        isolated = [request for request in engine.requests if request.is_isolated]
        ordinary = [request for request in engine.requests if not request.is_isolated]
        if isolated and (engine.is_turn_of_isolated or not ordinary):
            step = [self._random.choice(isolated)]
        else:
            step = [r for r in ordinary if not r.chunks_left or self._random.random() < 0.7]
        engine.is_turn_of_isolated = not engine.is_turn_of_isolated
        culprits = [request for request in step if request.is_striking]
        if culprits:
            culprits[0].num_kills += 1
            self.num_fault_deaths += 1
            in_prefill = [r.request_id for r in step if r.chunks_left]
            flight: FlightRecord | None = FlightRecord([r.request_id for r in step], in_prefill)
            if self._random.random() < self._unrecorded:
                flight = self._random.choice([None, FlightRecord([])])
            self._die(rank, EngineDeath(rank, engine.incarnation, "SIGSEGV", True, flight))
            return
        for request in step:
            request.chunks_left = max(0, request.chunks_left - 1)
            if not request.chunks_left:
                request.num_outputs += 1
                owner = engine.requests[request]
                owner.suspicions.clear(request.request_id, request.num_outputs)
                if request.is_done:
                    owner.suspicions.forget(request.request_id)
                    del engine.requests[request]

    def _die(self, rank: int, death: EngineDeath) -> None:
        engine = self.engines[rank]
        for frontend in self.frontends:
            own = [request for request, owner in engine.requests.items() if owner is frontend]
            losses = [
                (
                    request,
                    request.num_outputs > request.outputs_at_dispatch,
                    frontend.suspicions.isolated_until(request.request_id) > 0,
                )
                for request in own
            ]
            frontend.unjudged.append((death, losses))
            frontend.waiting[:0] = own
            if not self._late:
                explained = frontend.judge_all()
                for other in self.frontends:
                    other.suspicions.acquit(explained)
                frontend.waiting = [r for r in frontend.waiting if not r.is_done]
        self.engines[rank] = SimulatedEngine(
            engine.incarnation + 1, rounds_until_ready=self._random.randint(0, 5)
        )
