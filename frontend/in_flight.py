"""A request that has not ended, with the engine that has it and the times that are measured on it."""

from dataclasses import dataclass

from cluster.wire.messages import AddRequest, EngineCoreOutput
from cluster.wire.sampling import FinishReason
from frontend.engine_book import EngineBook
from frontend.metrics import FrontendMetrics
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream


@dataclass(slots=True, eq=False)
class InFlight:
    """One request from `submit` to its end."""

    stream: RequestStream
    attempt: int = -1
    """Number of the newest dispatch; -1 before the first."""
    engine: EngineBook | None = None
    """None while it waits for an engine."""
    queued_at: float = 0.0
    first_token_at: float | None = None
    last_token_at: float | None = None
    is_moving: bool = False
    """Its engine has died, and no token has come from the next one yet."""
    num_fault_moves: int = 0
    model_fingerprint: str | None = None
    """The weights that have begun the answer; none others may go on with it."""

    @property
    def request(self) -> GenerationRequest:
        """What was asked for."""
        return self.stream.request

    @property
    def num_context_tokens(self) -> int:
        """Prompt and output so far: what an engine has to compute before the next token."""
        return len(self.request.prompt_token_ids) + len(self.stream.token_ids)

    def next_attempt(
        self, frontend_index: int, frontend_incarnation: int, dispatch_seq: int, now: float
    ) -> AddRequest:
        """The message by which the next engine takes the request over, where the last one left it."""
        return AddRequest(
            request_id=self.request.request_id,
            frontend_index=frontend_index,
            frontend_incarnation=frontend_incarnation,
            dispatch_seq=dispatch_seq,
            attempt=self.attempt + 1,
            prompt_token_ids=self.request.prompt_token_ids,
            output_token_ids=self.stream.token_ids,
            block_hashes=self.request.block_hashes,
            sampling=self.request.sampling,
            priority=self.request.priority,
            cache_salt=self.request.cache_salt,
            age_seconds=now - self.request.arrived_at,
            traceparent=self.request.traceparent,
        )

    def assign(self, engine: EngineBook | None) -> None:
        """It is with this engine now, under the next attempt; or with none."""
        self.engine = engine
        self.stream.engine_rank = engine.rank if engine is not None else None
        self.attempt += engine is not None

    def may_go_to(self, engine: EngineBook) -> bool:
        """Whether this engine may have it: its pin, and the weights of what there is of the answer.

        A pin is for the first engine; a request that has lost it is better off anywhere.
        """
        if self.attempt < 0 and self.request.pinned_rank not in (None, engine.rank):
            return False
        return self.model_fingerprint in (None, engine.hello.model_fingerprint)

    def is_of(self, engine: EngineBook, attempt: int) -> bool:
        """Whether an output of this attempt on this engine is to be believed."""
        return self.engine is engine and self.attempt == attempt

    def take(self, output: EngineCoreOutput, now: float, metrics: FrontendMetrics) -> None:
        """Pass an output on to the stream, and measure it."""
        assert self.engine is not None
        known = len(self.stream.token_ids)
        self.stream.put(output)
        fresh = len(self.stream.token_ids) - known
        if fresh:
            self.model_fingerprint = self.engine.hello.model_fingerprint
            self._measure(fresh, self.engine.rank, now, metrics)
        if output.cached_tokens is not None and self.attempt == 0:
            self.stream.cached_tokens = output.cached_tokens

    def _measure(self, fresh: int, rank: int, now: float, metrics: FrontendMetrics) -> None:
        metrics.tokens(rank, fresh)
        if self.last_token_at is None:
            self.first_token_at = now
            prompt_tokens = len(self.request.prompt_token_ids)
            metrics.first_token(rank, now - self.request.arrived_at, prompt_tokens)
        else:
            metrics.next_tokens(rank, now - self.last_token_at)
            if self.is_moving:
                metrics.resumed(now - self.last_token_at)
        self.is_moving = False
        self.last_token_at = now

    def measure_end(self, reason: FinishReason, now: float, metrics: FrontendMetrics) -> None:
        """Count the request as ended."""
        decode_seconds = 0.0
        if self.first_token_at is not None and self.last_token_at is not None:
            decode_seconds = self.last_token_at - self.first_token_at
        metrics.ended(
            self.stream.engine_rank,
            reason,
            now - self.request.arrived_at,
            len(self.request.prompt_token_ids),
            len(self.stream.token_ids),
            decode_seconds,
        )
