"""A simulated engine as the cluster meets it: what it is sent, what it reports, how it fails."""

from collections import Counter

from cluster.wire.messages import BlockEvents, EngineHello, EnginePhase, LoadReport
from engine.news_timer import NewsTimer
from loadtests.simulation.cost_model import CostModel
from loadtests.simulation.engine_model import EngineModel, StepResult
from loadtests.simulation.engine_request import EngineRequest


class EngineProcess:
    """One incarnation of an engine: a model, its inbox, and its reports.

    What is sent to it is taken in between two steps, as in production. A report is of now: what
    has arrived, and what the finished steps have left.
    """

    def __init__(
        self,
        rank: int,
        incarnation: int,
        cost_model: CostModel,
        num_engines: int,
        prefill_speed_error: float = 1.0,
    ) -> None:
        self.rank, self.incarnation = rank, incarnation
        self.model = EngineModel(cost_model)
        self.is_alive = True
        self.is_hung = False
        self.is_computing = False
        self.news = NewsTimer(num_engines)
        self._prefill_speed_error = prefill_speed_error
        self._inbox: list[EngineRequest] = []
        self._acknowledged: dict[int, int] = {}
        self._frontends: Counter[int] = Counter()
        """By frontend, how many requests it has that give tokens."""
        self._report_seq = 0
        self._events_seq = 0
        self._stepped_at = 0.0

    @property
    def hello(self) -> EngineHello:
        """What it says to every frontend that it connects to."""
        cost = self.model.cost
        return EngineHello(
            protocol_version=(1, 0),
            rank=self.rank,
            incarnation=self.incarnation,
            model_fingerprint="simulated",
            max_model_len=cost.kv_capacity_tokens,
            block_size=cost.block_size,
            num_blocks=cost.num_blocks,
            max_num_seqs=cost.max_num_seqs,
            hash_seed="",
        )

    @property
    def num_requests(self) -> int:
        """All that it has."""
        return len(self._inbox) + self.model.num_waiting + self.model.num_running

    @property
    def listeners(self) -> list[int]:
        """The frontends that get tokens of its steps."""
        return list(self._frontends)

    # ── work ──

    def receive(self, request: EngineRequest) -> None:
        """Take what a frontend sends; it is looked at before the next step."""
        self._inbox.append(request)

    def begin_step(self, now: float) -> float | None:
        """Look at what was sent, and plan a step: its seconds, or None if there is nothing to do."""
        for request in self._inbox:
            self._acknowledged[request.frontend_index] = request.dispatch_seq
            self.model.add(request)
        self._inbox.clear()
        if not self.is_computing:
            self._stepped_at = now
        seconds = self.model.begin_step()
        self.is_computing = seconds is not None
        return seconds

    def end_step(self, now: float) -> StepResult:
        """Take in what the step has computed."""
        self._stepped_at = now
        result = self.model.end_step()
        for request in result.began:
            self._frontends[request.frontend_index] += 1
        for request in result.ended:
            self._frontends[request.frontend_index] -= 1
        self._frontends += Counter()  # forgets the frontends that have none left
        return result

    # ── what it tells ──

    def report(self, now: float) -> LoadReport:
        """How busy it is."""
        self._report_seq += 1
        model, cost = self.model, self.model.cost
        acknowledged = {**self._acknowledged}
        for request in self._inbox:
            acknowledged[request.frontend_index] = request.dispatch_seq
        arrived_tokens = sum(request.tokens_to_compute for request in self._inbox)
        return LoadReport(
            rank=self.rank,
            incarnation=self.incarnation,
            report_seq=self._report_seq,
            phase=EnginePhase.READY,
            step=model.num_steps,
            seconds_since_step=now - self._stepped_at,
            waiting=model.num_waiting + len(self._inbox),
            running=model.num_running,
            waiting_prompt_tokens=model.uncomputed_tokens + arrived_tokens,
            running_tokens=model.running_tokens,
            total_blocks=cost.num_blocks,
            used_blocks=model.cache.num_used,
            cached_blocks=model.cache.num_free_cached,
            prefill_tokens_per_second=cost.prefill_tokens_per_second * self._prefill_speed_error,
            decode_seconds_per_step=cost.decode_seconds_per_step,
            decode_seconds_per_request=cost.decode_seconds_per_request,
            decode_seconds_per_kv_token=cost.decode_seconds_per_kv_token,
            acknowledged=[(index, 1, seq) for index, seq in acknowledged.items()],
            events_seq=self._events_seq,
        )

    def take_block_events(self) -> BlockEvents | None:
        """What entered and left its cache since the last time; None if nothing did."""
        stored, removed = self.model.cache.take_events()
        if not stored and not removed:
            return None
        self._events_seq += 1
        return BlockEvents(self.rank, self.incarnation, self._events_seq, stored, removed)
