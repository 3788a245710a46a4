"""A request that has not ended, with the engine that has it and the times that are measured on it."""

from dataclasses import dataclass

from cluster.wire.messages import AddRequest, EngineCoreOutput
from cluster.wire.sampling import FinishReason
from frontend.engine_book import EngineBook
from frontend.metrics import FrontendMetrics
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream, Told


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
    num_told_tokens: int = 0
    """Output tokens that the client was told of; what has come after a stop string is not among them."""
    is_moving: bool = False
    """Its engine has died, and no token has come from the next one yet."""
    num_skips: int = 0
    """How often an engine left tokens of it out."""
    tokens_at_dispatch: int = 0
    """Output tokens that there were when the engine got it."""
    num_convictions_checked: int = 0
    """How many convictions were known when it was last held against them."""
    model_fingerprint: str | None = None
    """The weights that have begun the answer; none others may go on with it."""

    @property
    def request(self) -> GenerationRequest:
        """What was asked for."""
        return self.stream.request

    @property
    def num_context_tokens(self) -> int:
        """Prompt and output so far: what an engine has to compute before the next token."""
        return len(self.request.prompt_token_ids) + self.num_output_tokens

    @property
    def num_output_tokens(self) -> int:
        """What there is of the answer."""
        return self.stream.num_output_tokens

    @property
    def is_lost_with_its_engine(self) -> bool:
        """Whether no other engine can go on with it: it has begun, and its tokens are not kept."""
        return self.num_output_tokens > 0 and not self.stream.is_resumable

    def next_attempt(
        self,
        frontend_index: int,
        frontend_incarnation: int,
        dispatch_seq: int,
        isolated_until: int,
        now: float,
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
            isolated_until=isolated_until,
            tenant=self.request.tenant,
        )

    def assign(self, engine: EngineBook | None) -> None:
        """It is with this engine now, under the next attempt; or with none."""
        self.engine = engine
        self.stream.engine_rank = engine.rank if engine is not None else None
        self.attempt += engine is not None
        self.tokens_at_dispatch = self.num_output_tokens

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

    def note_move(self, cause: str, metrics: FrontendMetrics) -> None:
        """Its engine is lost; a request that has begun goes on in another, and that is a move."""
        if self.num_output_tokens:
            self.is_moving = True
            self.stream.num_migrations += 1
            metrics.moved(cause.partition(":")[0])

    def take(self, output: EngineCoreOutput, now: float, metrics: FrontendMetrics) -> None:
        """Pass an output on to the stream, and measure it."""
        stream, engine = self.stream, self.engine
        assert engine is not None
        known = stream.num_output_tokens
        stream.put(output)
        if stream.num_output_tokens > known or output.vector is not None:
            self.model_fingerprint = engine.hello.model_fingerprint
            self._measure(engine.rank, now, metrics)
        if output.cached_tokens is not None and self.attempt == 0:
            self.stream.cached_tokens = output.cached_tokens

    def _measure(self, rank: int, now: float, metrics: FrontendMetrics) -> None:
        last_token_at, self.last_token_at = self.last_token_at, now
        if last_token_at is None:
            self.first_token_at = now
            prompt_tokens = len(self.request.prompt_token_ids)
            metrics.first_token(rank, now - self.request.arrived_at, prompt_tokens)
        else:
            metrics.next_tokens(rank, now - last_token_at)
            if self.is_moving:
                metrics.resumed(now - last_token_at)
        self.is_moving = False

    def measure_told(self, told: Told, now: float, metrics: FrontendMetrics) -> None:
        """Count what the client is told of; the end too, which comes last."""
        for rank, count in told.tokens_by_rank.items():
            self.num_told_tokens += count
            metrics.tokens(rank, count)
        if told.finish_reason is not None:
            self._measure_end(told.finish_reason, now, metrics)

    def _measure_end(self, reason: FinishReason, now: float, metrics: FrontendMetrics) -> None:
        decode_seconds = 0.0
        if self.first_token_at is not None and self.last_token_at is not None:
            decode_seconds = self.last_token_at - self.first_token_at
        metrics.ended(
            self.stream.engine_rank,
            reason,
            now - self.request.arrived_at,
            len(self.request.prompt_token_ids),
            self.num_told_tokens,
            decode_seconds,
        )
