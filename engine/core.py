"""One replica's thinking: requests in, steps, outputs out. No sockets, no clock, no tensors."""

import logging
from collections import deque
from collections.abc import Iterable

from cluster.config import EngineConfig
from cluster.wire.messages import AddRequest, EngineCoreOutput
from cluster.wire.sampling import FinishReason
from engine.request import Request
from engine.scheduling.output import ModelRunner, RunResult, SchedulerOutput, StepOutcome
from engine.scheduling.scheduler import OutputsByFrontend, Scheduler
from engine.speed_model import SpeedModel
from engine.stats import EngineStats

_logger = logging.getLogger(__name__)


class EngineCore:
    """Schedules requests over one model runner.

    A shell drives it from one thread: `begin_step`, `submit`, `finish_step`. A step may begin while
    another is in flight; they are finished in the order in which they began. Between the calls it may
    abort requests, whose results are then dropped. Times are seconds on one clock that never goes
    back, given by the caller.
    """

    def __init__(
        self,
        config: EngineConfig,
        num_blocks: int,
        max_model_len: int,
        runner: ModelRunner,
        vocab_size: int,
    ) -> None:
        self._scheduler = Scheduler(config, num_blocks, max_model_len, vocab_size)
        self._runner = runner
        self._speed_model = SpeedModel()
        self._step = 0
        self._begun_at: deque[float] = deque()
        """Of the steps in flight."""
        self._step_ended_at = float("-inf")
        self._step_tokens = 0
        self._step_seconds = 0.0

    @property
    def has_work(self) -> bool:
        """Whether a step would compute something, or one is in flight."""
        return self._scheduler.has_requests or bool(self._begun_at)

    def add_request(self, message: AddRequest, now: float) -> EngineCoreOutput | None:
        """Accept a request; or the output that ends it at once, refused or already complete.

        An exception on the way is the end of this request alone.
        """
        try:
            return self._scheduler.add(Request.from_message(message, now))
        except Exception as error:
            _logger.exception("%s cannot be accepted", message.request_id)
            return EngineCoreOutput(
                message.request_id, message.attempt, len(message.output_token_ids), [],
                FinishReason.ERROR, error=f"cannot be accepted: {type(error).__name__}: {error}",
            )  # fmt: skip

    def abort_requests(self, request_ids: Iterable[str]) -> None:
        """Forget these requests and free their blocks at once; unknown ids are ignored."""
        self._scheduler.abort(request_ids)

    def abort_frontend(self, frontend_index: int) -> None:
        """Forget all requests of a frontend that is gone."""
        self._scheduler.abort_frontend(frontend_index)

    def begin_step(self, now: float) -> SchedulerOutput:
        """Decide what the next step computes.

        Nothing is an answer only while a step is in flight, whose results have to be known first: then
        this is no step, and not to be finished.
        """
        work = self._scheduler.schedule(now)
        if work.scheduled:
            self._begun_at.append(now)
        return work

    def submit(self, work: SchedulerOutput) -> StepOutcome:
        """Have the step computed. Raises only what ends the engine."""
        return self._runner.submit(work)

    def finish_step(
        self, work: SchedulerOutput, results: list[RunResult], now: float
    ) -> OutputsByFrontend:
        """Take over the results of the oldest step in flight; what is to be sent, by frontend index.

        It has taken the time since it began, or since the step before it ended.
        """
        self._step += 1
        self._step_tokens = work.shape.num_tokens
        self._step_seconds = now - max(self._begun_at.popleft(), self._step_ended_at)
        self._step_ended_at = now
        self._speed_model.observe(work.shape, self._step_seconds)
        return self._scheduler.update(work, results, now)

    def predict_seconds(self, work: SchedulerOutput) -> float:
        """How long this step may take by what was measured; far too long before that."""
        return self._speed_model.predict_seconds(work.shape)

    def stats(self) -> EngineStats:
        """A snapshot, with the timings of the requests that ended since the previous one."""
        scheduler, counters = self._scheduler, self._scheduler.counters
        kv_cache = scheduler.kv_cache
        tokens_to_compute, running_tokens = scheduler.waiting.num_tokens, 0
        crowding = scheduler.crowding
        passed_tokens = sum(scheduler.waiting.tokens_by_tenant[tenant] for tenant in crowding)
        for request in scheduler.running.values():
            running_tokens += request.num_computed_tokens
            if not request.is_decoding:
                tokens_to_compute += request.num_tokens_to_compute
                if request.tenant in crowding:
                    passed_tokens += request.num_tokens_to_compute
        return EngineStats(
            step=self._step,
            waiting=len(scheduler.waiting),
            running=len(scheduler.running),
            waiting_prompt_tokens=tokens_to_compute,
            running_tokens=running_tokens,
            total_blocks=kv_cache.pool.num_blocks,
            used_blocks=kv_cache.num_used_blocks,
            cached_blocks=kv_cache.pool.num_free_cached_blocks,
            preemptions=counters.preemptions,
            prefix_queries=counters.prefix_queries,
            prefix_hits=counters.prefix_hits,
            computed_tokens=counters.computed_tokens,
            step_tokens=self._step_tokens,
            step_seconds=self._step_seconds,
            speeds=self._speed_model.speeds,
            finished=counters.take_finished(),
            unpassed_prompt_tokens=tokens_to_compute - passed_tokens,
            crowding=crowding,
        )

    def take_block_events(self) -> tuple[list[bytes], list[bytes]]:
        """Hashes that entered and left the prefix cache since the last call: (stored, removed)."""
        return self._scheduler.kv_cache.pool.take_events()

    def cached_blocks(self) -> set[bytes]:
        """The hashes that the prefix cache holds now."""
        return self._scheduler.kv_cache.pool.cached_hashes

    def reset_prefix_cache(self) -> bool:
        """Forget all cached prefixes; False, and nothing done, while any request holds blocks."""
        return self._scheduler.kv_cache.pool.reset()

    def check_invariants(self) -> None:
        """Raises AssertionError unless every request and every block is accounted for."""
        self._scheduler.check_invariants()
