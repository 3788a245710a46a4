"""A simulated engine: continuous batching over a cost model, O(1) for each step of a decode."""

import heapq
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from loadtests.simulation.block_cache import BlockCache
from loadtests.simulation.cost_model import CostModel
from loadtests.simulation.engine_request import EngineRequest

WATERMARK_TOKENS_PER_RUNNING = 32
"""What an admission leaves free for each request that runs (`engine.scheduling.scheduler`)."""


class StepResult(NamedTuple):
    """What a step brought."""

    began: list[EngineRequest]
    """Those whose contexts are computed: each has one more token, its first here."""
    ended: list[EngineRequest]
    """Those that got their last token, after all others."""


class EngineModel:
    """Plans steps as `engine.scheduling.scheduler` does, and follows what they leave behind.

    First all decodes, one token each; then prompts, within the token budget and, while anybody
    decodes, within a chunk; then waiting requests, strictly in order. When the cache is full the
    youngest is preempted, and computes its context again. A decode is not touched step by step: a
    heap holds the step at which each ends, and a ring of counters the steps at which they need
    another block.
    """

    def __init__(self, cost_model: CostModel) -> None:
        self.cost = cost_model
        self.cache = BlockCache(cost_model.num_blocks)
        self.running: dict[EngineRequest, None] = {}
        """In the order of admission."""
        self.num_preemptions = 0
        self.num_steps = 0
        self.waiting_tokens = 0
        """Context tokens of the requests that wait; what the cache holds of them is not known yet."""
        self._waiting: list[tuple[tuple[float, int], EngineRequest]] = []
        self._prefilling: list[EngineRequest] = []
        self._ends: list[tuple[int, int, EngineRequest]] = []
        """(decode step, tie-break, request); entries of preempted requests are left in it."""
        self._ties = count()
        self._num_decoding = 0
        self._decode_tokens = 0
        """Context tokens of all decodes, the newest token of each not counted."""
        self._decode_step = 0
        self._growth = [0] * cost_model.block_size
        """How many decodes need another block in each step, by its number modulo the block size."""
        self._chunks: list[tuple[EngineRequest, int]] = []
        self._step_decodes = 0

    # ── what is asked ──

    @property
    def num_waiting(self) -> int:
        """Requests that wait for admission."""
        return len(self._waiting)

    @property
    def waiting(self) -> list[EngineRequest]:
        """Those that wait, in no order."""
        return [request for _, request in self._waiting]

    @property
    def num_running(self) -> int:
        """Requests that were admitted."""
        return len(self.running)

    @property
    def uncomputed_tokens(self) -> int:
        """Context tokens still to be computed, in waiting and running requests."""
        return self.waiting_tokens + sum(r.tokens_to_compute for r in self._prefilling)

    @property
    def running_tokens(self) -> int:
        """Tokens whose KV running requests hold."""
        return self._decode_tokens + sum(r.num_computed for r in self._prefilling)

    def outputs_of(self, request: EngineRequest) -> int:
        """How many tokens of its answer a request has now."""
        return request.outputs_at(self._decode_step)

    # ── coming ──

    def add(self, request: EngineRequest) -> None:
        """Let a request wait; with its answer it must fit the cache."""
        heapq.heappush(self._waiting, (request.precedence, request))
        self.waiting_tokens += request.context_tokens

    # ── steps ──

    def begin_step(self) -> float | None:
        """Plan a step: how many seconds it takes; None if there is nothing to do."""
        was_preempted = self._num_decoding > 0 and self._make_room()
        decodes = self._num_decoding
        budget = self.cost.max_num_batched_tokens - decodes
        new_budget = min(budget, self.cost.prefill_chunk_while_decoding) if decodes else budget
        self._chunks = []
        for request in self._prefilling:
            budget, new_budget = self._plan_chunk(request, budget, new_budget)
        if not was_preempted or not self.running:
            self._admit(budget, new_budget)
        if not decodes and not self._chunks:
            assert not self._waiting, "requests wait for an engine that has nothing to do"
            return None
        self._step_decodes = decodes
        prefill_tokens = sum(num_tokens for _, num_tokens in self._chunks)
        return self.cost.step_seconds(prefill_tokens, decodes, self._decode_tokens)

    def end_step(self) -> StepResult:
        """Take in what the planned step has computed."""
        self.num_steps += 1
        result = StepResult([], [])
        if self._step_decodes:
            self._decode_step += 1
            self._decode_tokens += self._num_decoding
            self._end_decodes(result.ended)
        for request, num_tokens in self._chunks:
            request.num_computed += num_tokens
            self._settle(request, request.num_computed)
            if not request.tokens_to_compute:
                self._begin_decode(request, result)
        return result

    def _plan_chunk(self, request: EngineRequest, budget: int, new_budget: int) -> tuple[int, int]:
        """Give a request what the step can take of it; what is left of the budgets."""
        num_tokens = min(request.tokens_to_compute, budget if request.num_outputs else new_budget)
        if num_tokens > 0:
            self._chunks.append((request, num_tokens))
        return budget - num_tokens, max(0, new_budget - num_tokens)

    def _admit(self, budget: int, new_budget: int) -> None:
        while self._waiting:
            request = self._waiting[0][1]
            if (budget if request.num_outputs else new_budget) <= 0 or not self._start(request):
                return
            heapq.heappop(self._waiting)
            self.waiting_tokens -= request.context_tokens
            self._prefilling.append(request)
            budget, new_budget = self._plan_chunk(request, budget, new_budget)

    def _start(self, request: EngineRequest) -> bool:
        """Admit a request, if there is a slot and room for its context."""
        if len(self.running) >= min(self.cost.max_num_seqs, self.cost.max_num_batched_tokens):
            return False
        hashes = request.client.hashes
        num_hits = 0
        if hashes:  # all but the last token at most: the next one comes from its logits
            most = (request.context_tokens - 1) // self.cost.block_size
            num_hits = self.cache.find(hashes, most)
        num_blocks = self.cost.blocks_for(request.context_tokens)
        reserved = self.cost.blocks_for(WATERMARK_TOKENS_PER_RUNNING * len(self.running))
        if not self.cache.take(hashes[:num_hits], num_blocks - num_hits, reserved):
            return False
        request.num_blocks = num_blocks
        request.held = list(hashes[:num_hits])
        request.num_settled = num_hits
        request.num_computed = num_hits * self.cost.block_size
        if not request.was_admitted:
            request.was_admitted = True
            request.cached_tokens = min(request.num_computed, request.client.prompt_tokens)
        self.running[request] = None
        return True

    # ── decodes ──

    def _begin_decode(self, request: EngineRequest, result: StepResult) -> None:
        """Its context is computed, and its next token is there."""
        self._prefilling.remove(request)
        first_block_step = (1 - request.context_tokens) % self.cost.block_size
        request.num_outputs += 1
        result.began.append(request)
        remaining = request.client.output_tokens - request.num_outputs
        if remaining <= 0:
            self._release(request, request.num_computed)
            result.ended.append(request)
            return
        request.is_decoding = True
        request.decoding_since = self._decode_step
        self._growth[(self._decode_step + first_block_step) % self.cost.block_size] += 1
        self._num_decoding += 1
        self._decode_tokens += request.num_computed + 1
        heapq.heappush(self._ends, (self._decode_step + remaining, next(self._ties), request))

    def _end_decodes(self, ended: list[EngineRequest]) -> None:
        while self._ends and self._ends[0][0] <= self._decode_step:
            request = heapq.heappop(self._ends)[2]
            if request not in self.running or not self._is_at_its_end(request):
                continue
            num_computed = self._stop_decode(request)
            self._release(request, num_computed)
            ended.append(request)

    def _is_at_its_end(self, request: EngineRequest) -> bool:
        return request.is_decoding and self.outputs_of(request) >= request.client.output_tokens

    def _stop_decode(self, request: EngineRequest) -> int:
        """Take a request out of the decodes; the tokens whose KV it has."""
        num_decoded = self._decode_step - request.decoding_since
        num_computed = request.num_computed + num_decoded
        step = request.decoding_since + 1 - request.num_computed
        self._growth[step % self.cost.block_size] -= 1
        self._num_decoding -= 1
        self._decode_tokens -= num_computed + 1
        request.num_outputs += num_decoded
        request.num_blocks = self.cost.blocks_for(num_computed)
        request.is_decoding = False
        return num_computed

    def _make_room(self) -> bool:
        """Hold the blocks that the decodes of the next step need; whether anybody lost its own."""
        was_preempted = False
        place = (self._decode_step + 1) % self.cost.block_size
        while (needed := self._growth[place]) and not self.cache.take((), needed):
            self._preempt(max(self.running, key=lambda request: request.precedence))
            was_preempted = True
        return was_preempted

    def _preempt(self, request: EngineRequest) -> None:
        self.num_preemptions += 1
        if request.is_decoding:
            num_computed = self._stop_decode(request)
        else:
            self._prefilling.remove(request)
            num_computed = request.num_computed
        self._release(request, num_computed)
        request.num_computed = 0
        self.add(request)

    # ── blocks ──

    def _settle(self, request: EngineRequest, num_computed: int) -> None:
        """Offer the blocks that so many computed tokens have filled to the cache."""
        hashes = request.client.hashes
        end = min(num_computed // self.cost.block_size, len(hashes))
        for block_hash in hashes[request.num_settled : end]:
            if self.cache.store(block_hash):
                request.held.append(block_hash)
        request.num_settled = max(request.num_settled, end)

    def _release(self, request: EngineRequest, num_computed: int) -> None:
        self._settle(request, num_computed)
        del self.running[request]
        self.cache.release(request.held, request.num_blocks - len(request.held))
        request.held = []

    def check_invariants(self) -> None:
        """Raises AssertionError unless sums, counters and blocks agree with the requests."""
        decoding = [request for request in self.running if request.is_decoding]
        assert len(decoding) == self._num_decoding, "a decode is lost"
        assert len(self._prefilling) + len(decoding) == len(self.running), "a prompt is lost"
        held: list[Sequence[bytes]] = [request.held for request in self.running]
        num_others = sum(self._num_blocks(request) - len(request.held) for request in self.running)
        self.cache.check_invariants(held, num_others)
        tokens = sum(
            request.num_computed + 1 + self._decode_step - request.decoding_since
            for request in decoding
        )
        assert tokens == self._decode_tokens, "context tokens of the decodes are miscounted"
        assert sum(self._growth) == len(decoding), "a decode needs no block, or two"

    def _num_blocks(self, request: EngineRequest) -> int:
        if not request.is_decoding:
            return request.num_blocks
        decoded = self._decode_step - request.decoding_since
        return self.cost.blocks_for(request.num_computed + decoded)
