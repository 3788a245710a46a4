"""An engine core over the simulated model, with every promise of a step checked in every step."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster.config import EngineConfig
from cluster.wire.block_hash import hash_blocks
from cluster.wire.messages import AddRequest, Blob, EngineCoreOutput, TokenLogprobs
from cluster.wire.sampling import FinishReason, SamplingParams
from engine.core import EngineCore
from engine.request import Request
from engine.scheduling.lookahead import awaits_token, ends_in_flight
from engine.scheduling.output import SchedulerOutput, StepOutcome
from engine.scheduling.tenants import crowded_out, places_held
from tests.support.simulated_runner import (
    SimulatedRunner,
    reference_output,
    reference_vector,
)

VOCAB_SIZE = 50


@dataclass
class Answer:
    """What a client has got of one request."""

    message: AddRequest
    token_ids: list[int] = field(default_factory=list)
    outputs: list[EngineCoreOutput] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    is_aborted: bool = False

    @property
    def prompt_logprobs(self) -> list[TokenLogprobs]:
        return [o.prompt_logprobs for o in self.outputs if o.prompt_logprobs is not None]

    def take(self, output: EngineCoreOutput) -> None:
        assert not self.is_aborted, "an aborted request gets output"
        assert self.finish_reason is None, "a request ends twice"
        assert output.first_output_index == len(self.token_ids), "a token is missing or doubled"
        self.token_ids += output.token_ids
        self.outputs.append(output)
        self.finish_reason = output.finish_reason


class SimulatedEngine:
    """Steps a real `EngineCore` over a `SimulatedRunner`, and keeps what each client got."""

    def __init__(
        self,
        num_blocks: int = 64,
        max_model_len: int = 256,
        max_in_flight: int = 1,
        is_eager: bool = False,
        **settings: Any,
    ) -> None:
        settings = {"block_size": 4, "max_num_batched_tokens": 64, **settings}
        self.config = EngineConfig(**settings)
        self.max_model_len = max_model_len
        self.runner = SimulatedRunner(num_blocks, self.config.block_size, VOCAB_SIZE)
        self.runner.is_eager = is_eager
        self.core = EngineCore(self.config, num_blocks, max_model_len, self.runner, VOCAB_SIZE)
        self.scheduler = self.core._scheduler
        self.answers: dict[str, Answer] = {}
        self.max_in_flight = max_in_flight
        self.in_flight: deque[tuple[SchedulerOutput, StepOutcome]] = deque()
        self.now = 0.0
        self._replayed_hashes: set[bytes] = set()
        self._was_isolated = False

    def add(
        self,
        request_id: str,
        prompt: Sequence[int],
        output: Sequence[int] = (),
        *,
        frontend_index: int = 0,
        priority: int = 0,
        age_seconds: float = 0.0,
        cache_salt: str = "",
        attempt: int = 0,
        isolated_until: int = 0,
        tenant: str = "",
        **sampling: Any,
    ) -> EngineCoreOutput | None:
        """Send a request, and take what the engine says to it at once, if anything."""
        message = AddRequest(
            request_id=request_id,
            frontend_index=frontend_index,
            frontend_incarnation=1,
            dispatch_seq=len(self.answers),
            attempt=attempt,
            prompt_token_ids=list(prompt),
            output_token_ids=list(output),
            block_hashes=hash_blocks(prompt, self.config.block_size, cache_salt),
            sampling=SamplingParams(**sampling),
            priority=priority,
            cache_salt=cache_salt,
            age_seconds=age_seconds,
            isolated_until=isolated_until,
            tenant=tenant,
        )
        refusal = self.core.add_request(message, self.now)
        answer = self.answers.setdefault(request_id, Answer(message, list(output)))
        if refusal is not None and answer.message is message:
            answer.take(refusal)
        return refusal

    def abort(self, *request_ids: str) -> None:
        """Forget these requests, as their clients have."""
        self.core.abort_requests(request_ids)
        for request_id in request_ids:
            if request_id in self.answers:
                self.answers[request_id].is_aborted = True

    def step(self, during: Callable[[], None] = lambda: None) -> SchedulerOutput:
        """End a step, behind which as many have begun as may be in flight.

        `during` comes between its forward pass and the update.
        """
        assert self.core.has_work, "there is nothing to step for"
        while len(self.in_flight) < self.max_in_flight and self.begin():
            pass
        return self.end(during)

    def begin(self) -> bool:
        """Begin a step; False if those in flight have to end first."""
        running = dict(self.scheduler.running)
        going_on = {
            r.request_id
            for r in running.values()
            if r.decodes_next and not ends_in_flight(r, self.max_model_len)
        }
        waiting = {r.request_id for r in running.values() if awaits_token(r)}
        work = self.core.begin_step(self.now)
        if not work.scheduled:
            assert self.in_flight or not self.scheduler.has_requests, "a step does nothing"
            assert not work.preempted, "a request is preempted for no step"
            return False
        self._check_isolation(work, running)
        self._check_plan(work, running, going_on, waiting)
        self.in_flight.append((work, self.core.submit(work)))
        return True

    def end(self, during: Callable[[], None] = lambda: None) -> SchedulerOutput:
        """End the oldest step in flight."""
        work, outcome = self.in_flight.popleft()
        results = outcome.result()
        during()
        self.now += 0.01
        for frontend_index, outputs in self.core.finish_step(work, results, self.now).items():
            for output in outputs:
                answer = self.answers[output.request_id]
                assert answer.message.frontend_index == frontend_index
                answer.take(output)
        self.check()
        return work

    def run(self) -> None:
        """Step until nothing is left to do."""
        while self.core.has_work:
            self.step()

    def check(self) -> None:
        """Every block is accounted for, and the block events tell what is cached."""
        self.core.check_invariants()
        stored, removed = self.core.take_block_events()
        assert self._replayed_hashes.isdisjoint(stored)
        assert self._replayed_hashes.issuperset(removed)
        self._replayed_hashes |= set(stored)
        self._replayed_hashes -= set(removed)
        assert self._replayed_hashes == self.scheduler.kv_cache.pool.cached_hashes

    def expected(self, request_id: str) -> list[int]:
        """The output that this request must have in the end."""
        message = self.answers[request_id].message
        if message.sampling.pooling is not None:
            return []
        return reference_output(
            message.prompt_token_ids, message.sampling, self.max_model_len, VOCAB_SIZE
        )

    def expected_vector(self, request_id: str) -> Blob | None:
        """The vector that this request must have in the end; None if it has tokens."""
        message = self.answers[request_id].message
        if message.sampling.pooling is None:
            return None
        return reference_vector(message.prompt_token_ids, message.sampling.pooling.pooling)

    def _check_isolation(self, work: SchedulerOutput, running: dict[str, Request]) -> None:
        """An isolated request is alone in its step, and the others have every second step."""
        is_isolated = any(scheduled.request.is_isolated for scheduled in work.scheduled)
        if self.in_flight:
            assert not is_isolated, "an isolated request is not alone in flight"
            assert not self._was_isolated, "an isolated request has company in flight"
        if is_isolated:
            assert len(work.scheduled) == 1, "an isolated request is not alone"
            if self._was_isolated:
                preempted = {request.request_id for request in work.preempted}
                others = {r.request_id for r in running.values() if not r.is_isolated}
                assert others <= preempted, "the others are kept from their turn"
        self._was_isolated = is_isolated

    def _check_plan(
        self,
        work: SchedulerOutput,
        running: dict[str, Request],
        decoding: set[str],
        waiting: set[str],
    ) -> None:
        """`decoding` are the streams that go on, `waiting` those that need to know a token first."""
        scheduled = {s.request.request_id: s.num_tokens for s in work.scheduled}
        preempted = {request.request_id for request in work.preempted}
        assert not (preempted and self.in_flight), (
            "a request is preempted while a step is in flight"
        )
        assert scheduled.keys().isdisjoint(waiting), "a token is needed that is not known"
        assert len(scheduled) == len(work.scheduled), "a request is scheduled twice"
        assert all(s.end < self._limit_of(s.request) for s in work.scheduled), (
            "a length is exceeded"
        )
        assert work.shape.num_tokens <= self.config.max_num_batched_tokens, "the budget is exceeded"
        assert len(self.scheduler.running) <= self.config.max_num_seqs
        assert scheduled.keys().isdisjoint(preempted), "a preempted request is computed"
        if not self._was_isolated:
            streams = {r for r in decoding if not self._is_isolated(r)}
            assert streams <= scheduled.keys() | preempted | waiting, (
                "a stream is left out of a step"
            )
        new = [s for s in work.scheduled if not (s.request.num_output_tokens or s.is_decode)]
        if decoding & scheduled.keys() or (decoding - preempted and self._was_isolated):
            chunk = self.config.prefill_chunk_while_decoding
            held = places_held(r for id_, r in running.items() if id_ not in preempted)
            spared = crowded_out({s.request.tenant for s in new}, held, self.config.max_num_seqs)
            limited = [s.num_tokens for s in new if s.request.tenant not in spared]
            assert sum(limited) <= chunk, "the chunk is too big"
        if preempted:
            assert scheduled.keys() <= running.keys(), (
                "a request is admitted in a step that preempts"
            )

    def _limit_of(self, request: Request) -> int:
        """Tokens that the request has at its end, at most; of one that pools, one more."""
        if request.sampling.pooling is not None:
            return request.num_tokens + 1
        wanted = request.num_prompt_tokens + request.sampling.max_tokens
        return min(wanted, self.max_model_len)

    def _is_isolated(self, request_id: str) -> bool:
        request = self.scheduler.running.get(request_id)
        return request is not None and request.is_isolated
