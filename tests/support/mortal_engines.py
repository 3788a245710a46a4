"""Real engine cores over one real model, of which the first ends after a given number of tokens."""

import asyncio
import contextlib
import time
from collections import deque

from cluster.config import EngineConfig
from cluster.wire.block_hash import HASH_SEED
from cluster.wire.codec import Decoder, Encoder
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    AddRequest,
    EngineCoreOutputs,
    EngineHello,
    EngineToFrontend,
    FrontendToEngine,
    UtilityResult,
)
from engine.core import EngineCore
from engine.execution.runner import ModelRunner
from engine.scheduling.output import MAX_STEPS_IN_FLIGHT, SchedulerOutput, StepOutcome
from frontend.cluster_view import EngineCounts
from frontend.engine_book import EngineBook
from frontend.in_flight import InFlight
from frontend.metrics import FrontendMetrics
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream


class MortalEngines:
    """Speaks `EngineClient`; every message goes through the wire's encoding, but through no socket.

    The engine at work ends when `tokens_until_death` output tokens have come of it: what it computed
    beside them in that step is lost, and all that is in flight. All its requests go on in the next
    engine, which has computed nothing yet.
    """

    are_all_engines_dead = False
    is_draining = False
    engine_counts = EngineCounts(2, 2, 0, 0)

    def __init__(self, runner: ModelRunner, config: EngineConfig) -> None:
        self._runner, self._config = runner, config
        self._metrics = FrontendMetrics("tiny", 0)
        self._requests: dict[str, InFlight] = {}
        self._encoder = Encoder()
        self._to_engine: Decoder[AddRequest] = Decoder(FrontendToEngine)
        self._to_frontend: Decoder[EngineCoreOutputs] = Decoder(EngineToFrontend)
        self._task: asyncio.Task[None] | None = None
        self.restart(None)

    def restart(self, tokens_until_death: int | None) -> None:
        """Begin with an engine that has computed nothing. No request may be there."""
        assert not self._requests, f"requests are left: {list(self._requests)}"
        self._tokens_until_death = tokens_until_death
        self.num_deaths = 0
        self._start_engine()

    def _start_engine(self) -> None:
        runner, rank = self._runner, self.num_deaths
        self._in_flight: deque[tuple[SchedulerOutput, StepOutcome]] = deque()
        self._core = EngineCore(
            self._config, runner.num_blocks, runner.max_model_len, runner, runner.vocab_size
        )
        self._book = EngineBook(
            EngineHello(
                PROTOCOL_VERSION, rank, 1, "tiny", runner.max_model_len, self._config.block_size,
                runner.num_blocks, self._config.max_num_seqs, HASH_SEED,
            ),
            (0, 1),
        )  # fmt: skip

    # ── what the text side asks ──

    def check_room(self, sketch: GenerationRequest) -> None:
        """There is always room."""

    def submit(self, request: GenerationRequest) -> RequestStream:
        """Give the request to the engine that is there."""
        stream = RequestStream(request, self._on_abort)
        in_flight = self._requests[request.request_id] = InFlight(stream)
        self._send(in_flight)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return stream

    def max_request_tokens(self) -> int | None:
        """No less than the model's context."""
        return None

    async def call_engines(self, method: str) -> dict[int, UtilityResult]:
        """Nothing is asked of these engines."""
        raise NotImplementedError(method)

    def describe(self) -> dict[str, object]:
        """Nothing to tell."""
        return {}

    def decisions(self, most: int) -> list[dict[str, object]]:
        """Nothing to choose."""
        return []

    async def close(self) -> None:
        """End the work."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def _on_abort(self, stream: RequestStream) -> None:
        del self._requests[stream.request.request_id]
        self._core.abort_requests([stream.request.request_id])

    # ── what engines and failover do ──

    def _send(self, in_flight: InFlight) -> None:
        message = in_flight.next_attempt(0, 1, 0, 0, time.monotonic())
        in_flight.assign(self._book)
        received = self._to_engine.decode(self._encoder.encode(message))
        refusal = self._core.add_request(received, time.monotonic())
        if refusal is not None:
            in_flight.take(refusal, time.monotonic(), self._metrics)
            del self._requests[in_flight.request.request_id]

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(0)
            if self._core.has_work:
                self._step()

    def _step(self) -> None:
        work = self._core.begin_step(time.monotonic())
        if work.scheduled:
            self._in_flight.append((work, self._core.submit(work)))
        max_in_flight = MAX_STEPS_IN_FLIGHT if self._runner.overlaps_steps else 1
        if work.scheduled and len(self._in_flight) < max_in_flight:
            return
        work, outcome = self._in_flight.popleft()
        outputs = self._core.finish_step(work, outcome.result(), time.monotonic())
        message = EngineCoreOutputs(self.num_deaths, 1, outputs.get(0, []))
        for output in self._to_frontend.decode(self._encoder.encode(message)).outputs:
            in_flight = self._requests[output.request_id]
            in_flight.take(output, time.monotonic(), self._metrics)
            if output.finish_reason is not None:
                del self._requests[output.request_id]
            if self._tokens_until_death is not None and output.token_ids:
                self._tokens_until_death -= 1
                if self._tokens_until_death == 0:
                    self._die()
                    return

    def _die(self) -> None:
        self.num_deaths += 1
        self._start_engine()
        for in_flight in self._requests.values():
            in_flight.stream.num_migrations += 1
        for in_flight in list(self._requests.values()):
            self._send(in_flight)
