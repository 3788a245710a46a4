"""Continuous batching: who computes how many tokens in the next step, and what came of the last."""

import logging
from collections import Counter
from collections.abc import Iterable
from itertools import count

from cluster.config import EngineConfig
from cluster.wire.messages import EngineCoreOutput
from cluster.wire.sampling import FinishReason
from engine.kv_cache.block import KVCacheBlock
from engine.kv_cache.manager import KVCacheManager
from engine.request import Request, RequestStatus
from engine.scheduling.admission import AdmissionLimits
from engine.scheduling.counters import RequestTimings, SchedulerCounters
from engine.scheduling.isolation import StepTurns
from engine.scheduling.lookahead import awaits_token, ends_in_flight
from engine.scheduling.output import RunResult, ScheduledRequest, SchedulerOutput
from engine.scheduling.request_output import engine_output, keep_prompt_logprobs
from engine.scheduling.request_queue import RequestQueue
from engine.scheduling.step_plan import StepPlan
from engine.scheduling.stop_condition import finish, finish_if_complete, take_answer
from engine.scheduling.tenants import (
    crowded_out,
    crowding,
    give_place_back,
    may_take_place,
    places_held,
    wanted_tokens,
)

_logger = logging.getLogger(__name__)

OutputsByFrontend = dict[int, list[EngineCoreOutput]]

WATERMARK_BLOCKS_PER_RUNNING = 2
"""Blocks that an admission leaves free for each request that runs. They will need them soon, and
would take them from the newcomer: where the cache is the bottleneck, recomputation was 14 to 22 %
of the needed work with 2 blocks, 24 to 31 % with 1, and 41 to 50 % with 1 % of the cache."""


class Scheduler:
    """Gives each step's token budget to requests, and takes their results back.

    There is no prefill and no decode phase: each request's computed tokens chase its tokens. First
    come the requests whose streams have begun, one token each; then the prompt that is partly
    computed; then those that wait. While anybody decodes, all new prompts together get a small chunk.

    An admitted request gets the blocks for all tokens it has, so that a half computed prompt never
    fights for memory: only decodes run out of blocks, and then the youngest request is preempted.
    The oldest is never the victim of another, so there is always progress, and everybody ends.

    A request that may have killed an engine is computed alone for a while: its steps take turns with
    those of all others (`StepTurns`).

    A step may be scheduled while another is in flight. It is planned as if every token in flight were
    known, but for the requests that need to know theirs (`lookahead`): these are left out of it. What
    a stop token in flight makes superfluous is computed for nothing, and dropped by `update`.
    """

    def __init__(
        self, config: EngineConfig, num_blocks: int, max_model_len: int, vocab_size: int
    ) -> None:
        self.kv_cache = KVCacheManager(num_blocks, config.block_size, config.enable_prefix_caching)
        self.waiting = RequestQueue()
        self.running: dict[str, Request] = {}
        """Admitted requests, in the order of admission."""
        self.counters = SchedulerCounters()
        self._config = config
        self._limits = AdmissionLimits(num_blocks, config.block_size, max_model_len, vocab_size)
        self._sequence = count()
        self._requests: dict[str, Request] = {}
        self._held = Counter[str]()
        """By tenant, how many of those that run are its own."""
        self._turns = StepTurns()
        self.num_steps_in_flight = 0

    @property
    def has_requests(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self._requests)

    @property
    def crowding(self) -> frozenset[str]:
        """The tenants that crowd out others: what others ask is computed before what they ask."""
        return crowding(self._held, self._config.max_num_seqs)

    # ── in and out ───────────────────────────────────────────────────────────────────────────

    def add(self, request: Request) -> EngineCoreOutput | None:
        """Queue the request; or the output that ends it, if it cannot be served or is complete."""
        refusal = self._limits.refusal(request)
        if request.request_id in self._requests:
            refusal = f"request_id {request.request_id} is in use by a request that has not ended"
        if refusal:
            finish(request, FinishReason.ERROR, refusal)
            return engine_output(request)
        if finish_if_complete(request, self._limits.max_model_len):
            return engine_output(request)
        by_priority = self._config.scheduling_policy == "priority"
        # What has begun elsewhere is as old as its client's request. All else goes in the order in
        # which it was sent here: by the time of its arrival, whoever waits long in a frontend's
        # queue, the flood of one tenant, would overtake whose turn it was there.
        has_begun = request.num_output_tokens > 0
        request.precedence = (
            request.priority if by_priority else 0,
            request.arrived_at if has_begun else request.accepted_at,
            next(self._sequence),
        )
        self.waiting.push(request)
        self._requests[request.request_id] = request
        self._turns.add(request)
        return None

    def abort(self, request_ids: Iterable[str]) -> None:
        """Drop these requests and free their blocks at once; unknown ids are of no consequence.

        May come while steps are in flight: their results for them are then ignored.
        """
        for request_id in request_ids:
            request = self._requests.get(request_id)
            if request is not None:
                finish(request, FinishReason.ABORT)
                self._release(request)

    def abort_frontend(self, frontend_index: int) -> None:
        """Drop all requests of a frontend that has died."""
        requests = list(self._requests.values())
        self.abort(r.request_id for r in requests if r.frontend_index == frontend_index)

    def _release(self, request: Request) -> None:
        """Let go of a request that has ended, wherever it is."""
        del self._requests[request.request_id]
        self._turns.remove(request)
        if self.running.pop(request.request_id, None) is None:
            self.waiting.remove(request)
        else:
            give_place_back(request.tenant, self._held)
            self.kv_cache.free(request)
        timings = RequestTimings.of(request)
        if timings is not None:
            self.counters.finished.append(timings)

    # ── before a step ────────────────────────────────────────────────────────────────────────

    def schedule(self, now: float) -> SchedulerOutput:
        """The next step's work; something of it whenever there is any request and no step in flight.

        While there is one, nothing may be left to do until its results are known.
        """
        plan = StepPlan(self._config.max_num_batched_tokens)
        turns = list(self._turns.in_order(self.running.values(), self.waiting.first()))
        if self.num_steps_in_flight and not self._may_look_ahead(turns):
            turns = []
        for turn in turns:
            if turn is None:
                self._schedule_all_others(plan, now)
            else:
                self._schedule_alone(turn, plan, now)
            if len(plan):
                self._turns.took(turn)
                self.num_steps_in_flight += 1
                break
        work = plan.output()
        for run in work.scheduled:
            run.request.num_tokens_in_flight += run.num_tokens
        return work

    def _may_look_ahead(self, turns: list[Request | None]) -> bool:
        """Whether a step can be planned before the results of the one in flight are known.

        Not beside an isolated request: its engine's death is to accuse nobody else. And nobody is
        preempted for it: the blocks may be free when the results are known.
        """
        if turns != [None] or self._turns.was_isolated:
            return False
        decodes = [request for request in self._going_on() if request.decodes_next]
        return self.kv_cache.has_slot_for_each(self._ready(decodes))

    def _going_on(self) -> list[Request]:
        """The requests that are computed together, but for what ends in flight."""
        shared = self._turns.others(self.running.values())
        if not self.num_steps_in_flight:
            return shared
        return [r for r in shared if not ends_in_flight(r, self._limits.max_model_len)]

    def _ready(self, decodes: list[Request]) -> list[Request]:
        """Those whose newest token can be computed now."""
        if not self.num_steps_in_flight:
            return decodes
        return [request for request in decodes if not awaits_token(request)]

    def _schedule_all_others(self, plan: StepPlan, now: float) -> None:
        """Plan a step of the requests that are not isolated."""
        decodes: list[Request] = []
        contexts: list[Request] = []
        for request in self._going_on():
            (decodes if request.decodes_next else contexts).append(request)
        self._schedule_decodes(self._ready(decodes), plan)
        if any(request.is_running for request in decodes):
            plan.limit_new_prompts(self._config.prefill_chunk_while_decoding)
        num_places = self._config.max_num_seqs
        wanted = wanted_tokens(self.waiting.tokens_by_tenant, contexts, self._held, num_places)
        plan.share_new_prompts(wanted, crowded_out(wanted.keys(), self._held, num_places))
        self._schedule_contexts(contexts, plan)
        self._admit(plan, now)

    def _schedule_alone(self, request: Request, plan: StepPlan, now: float) -> None:
        """Plan a step of this one, if there is a slot and room for it; it may still wait."""
        if not request.is_running:
            if plan.preempted or not self._start_if_room(request, now):
                return
        elif request.decodes_next and self._table_with_slot(request, plan) is None:
            return
        if any(r.decodes_next for r in self.running.values()):
            plan.limit_new_prompts(self._config.prefill_chunk_while_decoding)
        plan.schedule(request, self.kv_cache.block_table(request))

    def _schedule_decodes(self, requests: Iterable[Request], plan: StepPlan) -> None:
        for request in requests:
            if plan.preempted and not request.is_running:
                continue  # an earlier turn of this loop has preempted it
            block_table = self._table_with_slot(request, plan)
            if block_table is not None:
                plan.schedule_decode(request, block_table)

    def _table_with_slot(self, request: Request, plan: StepPlan) -> list[int] | None:
        """Get the request a slot for its newest token; None if it was preempted itself."""
        while (block_table := self.kv_cache.table_with_slot(request)) is None:
            victim = max(self.running.values(), key=lambda r: r.precedence)
            self._preempt(victim)
            plan.preempt(victim)
            if victim is request:
                return None
        return block_table

    def _preempt(self, request: Request) -> None:
        """Take the request's blocks; it will compute its tokens again, and go on where it was."""
        assert not request.num_tokens_in_flight, f"{request.request_id} is preempted in flight"
        self.kv_cache.free(self.running.pop(request.request_id))
        give_place_back(request.tenant, self._held)
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        request.prompt_logprobs.clear()
        self.counters.preemptions += 1
        self.waiting.push(request)

    def _schedule_contexts(self, requests: Iterable[Request], plan: StepPlan) -> None:
        """Go on with what is partly computed: one new prompt of each tenant, as `_admit` sees to."""
        for request in requests:
            if request.is_running and plan.tokens_left_for(request):
                plan.schedule(request, self.kv_cache.block_table(request))

    def _admit(self, plan: StepPlan, now: float) -> None:
        """Start waiting requests, strictly in order: a large one is not overtaken for ever.

        Only from tokens that all running requests left over. So no stream is left out of a step, and
        a tenant's prompts are computed one by one. A tenant that has had its share is passed over.
        An isolated request is started by its own step, and waited for.
        """
        passed_over: set[str] = set()
        while not plan.preempted and (request := self.waiting.first(passed_over)) is not None:
            if request.is_isolated:
                break
            if not plan.tokens_left_for(request) or not may_take_place(
                request.tenant, self._held, self._config.max_num_seqs
            ):
                passed_over.add(request.tenant)
            elif self._start_if_room(request, now):
                plan.schedule(request, self.kv_cache.block_table(request))
            else:
                break

    def _start_if_room(self, request: Request, now: float) -> bool:
        """Admit this request; False if it has to wait for room."""
        # All that run may have to share one step, however they came here.
        if len(self.running) >= min(self._config.max_num_seqs, self._config.max_num_batched_tokens):
            return False
        prefix = self._find_prefix(request)
        watermark = WATERMARK_BLOCKS_PER_RUNNING * len(self.running)
        if not self.kv_cache.allocate_slots(request, request.num_tokens, prefix, watermark):
            return False
        self.waiting.remove(request)
        self._start(request, len(prefix) * self.kv_cache.block_size, now)
        return True

    def _find_prefix(self, request: Request) -> list[KVCacheBlock]:
        """Cached blocks to begin with."""
        return [] if request.needs_whole_prompt else self.kv_cache.find_prefix(request)

    def _start(self, request: Request, num_hit_tokens: int, now: float) -> None:
        self.running[request.request_id] = request
        self._held[request.tenant] += 1
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = num_hit_tokens
        if request.first_scheduled_at is None:
            request.first_scheduled_at = now
            request.num_cached_tokens = min(num_hit_tokens, request.num_prompt_tokens)
            self.counters.prefix_queries += request.num_prompt_tokens
            self.counters.prefix_hits += request.num_cached_tokens

    # ── after a step ─────────────────────────────────────────────────────────────────────────

    def update(
        self, work: SchedulerOutput, results: list[RunResult], now: float
    ) -> OutputsByFrontend:
        """Take over what the oldest step in flight computed; what is to be sent, by frontend index."""
        outputs: OutputsByFrontend = {}
        self.num_steps_in_flight -= 1
        self.counters.computed_tokens += work.shape.num_tokens
        for scheduled, result in zip(work.scheduled, results, strict=True):
            request = scheduled.request
            request.num_tokens_in_flight -= scheduled.num_tokens
            if request.is_finished:
                continue  # while the step was in flight: aborted, or at an end that nobody foresaw
            try:
                output = self._apply(scheduled, result, now)
            except AssertionError:
                raise  # the books are wrong, and that is everybody's business
            except Exception as error:  # is the end of this request alone
                _logger.exception("%s ends: its result cannot be taken over", request.request_id)
                output = self._end_with_error(request, f"{type(error).__name__}: {error}")
            if output is not None:
                outputs.setdefault(request.frontend_index, []).append(output)
        return outputs

    def _end_with_error(self, request: Request, error: str) -> EngineCoreOutput:
        finish(request, FinishReason.ERROR, error)
        if request.request_id in self._requests:
            self._release(request)
        return engine_output(request)

    def _apply(
        self, scheduled: ScheduledRequest, result: RunResult, now: float
    ) -> EngineCoreOutput | None:
        request = scheduled.request
        if result.error:
            return self._end_with_error(request, result.error)
        keep_prompt_logprobs(request, result)
        request.num_computed_tokens += scheduled.num_tokens
        self.kv_cache.cache_computed_blocks(request)
        if not scheduled.reaches_end:
            return None
        if is_first := request.first_token_at is None:
            request.first_token_at = now
        request.last_token_at = now
        if take_answer(request, result, self._limits.max_model_len):
            self._release(request)
        return engine_output(request, result, is_first)

    def check_invariants(self) -> None:
        """Raises AssertionError unless requests, queue, blocks and tables agree."""
        waiting = {request.request_id for request in self.waiting}
        assert waiting.isdisjoint(self.running), "a request both waits and runs"
        assert waiting | self.running.keys() == self._requests.keys(), "a request is lost"
        assert self.waiting.num_tokens == sum(request.num_tokens for request in self.waiting)
        assert not any(r.next_position for r in self.waiting), "KV of a waiting request"
        assert self.num_steps_in_flight or not any(
            r.num_tokens_in_flight for r in self.running.values()
        ), "tokens are in flight without a step"
        assert self._held == places_held(self.running.values()), "a place is lost"
        assert self.kv_cache.request_ids == self.running.keys(), (
            f"blocks are held for {self.kv_cache.request_ids}, {set(self.running)} run"
        )
        self.kv_cache.check_invariants()
