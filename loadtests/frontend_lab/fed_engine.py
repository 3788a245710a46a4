"""An engine client with nothing behind it: every request gets a token a turn of the event loop."""

import asyncio
import time
from collections.abc import Sequence

from cluster.wire.block_hash import HASH_SEED
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    EngineCoreOutput,
    EngineHello,
    UtilityResult,
)
from cluster.wire.sampling import FinishReason
from frontend.cluster_view import EngineCounts
from frontend.courier import Courier
from frontend.engine_book import EngineBook
from frontend.in_flight import InFlight
from frontend.metrics import FrontendMetrics
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream, Told

METRICS_SECONDS = 0.1
"""As often as a frontend writes down what it has counted."""


def idle_engine_book() -> EngineBook:
    """What a frontend keeps of an engine that has just said hello."""
    hello = EngineHello(PROTOCOL_VERSION, 0, 1, "fed", 4096, 16, 100_000, 512, HASH_SEED)
    return EngineBook(hello, (0, 1))


class FedEngine:
    """Speaks `EngineClient`. Its tokens are measured and told of as an engine's are."""

    is_draining = False
    are_all_engines_dead = False

    def __init__(self, token_ids: Sequence[int], metrics: FrontendMetrics) -> None:
        """Answers are these tokens, over and over, as many as a request wants."""
        self._token_ids = token_ids
        self._metrics = metrics
        self._courier = Courier(metrics.counted_together)
        self._book = idle_engine_book()
        self._requests: dict[str, InFlight] = {}
        self._has_work = asyncio.Event()

    def submit(self, request: GenerationRequest) -> RequestStream:
        """Feed it from the next turn on."""
        stream = RequestStream(
            request, self._on_abort,
            on_told=lambda told: self._on_told(in_flight, told), on_news=self._courier.call,
        )  # fmt: skip
        in_flight = InFlight(stream)
        in_flight.assign(self._book)
        self._requests[request.request_id] = in_flight
        self._has_work.set()
        return stream

    async def feed(self) -> None:
        """Give each request a token, turn after turn, for ever."""
        written_at = 0.0
        while True:
            await self._has_work.wait()
            now = time.monotonic()
            for in_flight in list(self._requests.values()):
                self._feed_one(in_flight, now)
            if now > written_at + METRICS_SECONDS:
                written_at = now
                self._metrics.loop_state(0, 0, 0.0)
            await asyncio.sleep(0)

    def _feed_one(self, in_flight: InFlight, now: float) -> None:
        request, index = in_flight.request, in_flight.num_output_tokens
        is_last = index + 1 == request.sampling.max_tokens
        output = EngineCoreOutput(
            request.request_id, 0, index, [self._token_ids[index % len(self._token_ids)]],
            FinishReason.LENGTH if is_last else None,
        )  # fmt: skip
        in_flight.take(output, now, self._metrics)
        self._book.begin(request.request_id)
        if is_last:
            self._forget(request.request_id)

    def _on_told(self, in_flight: InFlight, told: Told) -> None:
        in_flight.measure_told(told, time.monotonic(), self._metrics)

    def _on_abort(self, stream: RequestStream) -> None:
        self._forget(stream.request.request_id)

    def _forget(self, request_id: str) -> None:
        del self._requests[request_id]
        if not self._requests:
            self._has_work.clear()

    # ── what else a frontend may ask ──

    def check_room(self, sketch: GenerationRequest) -> None:
        """There is always room."""

    @property
    def engine_counts(self) -> EngineCounts:
        """One engine."""
        return EngineCounts(1, ready=1)

    def max_request_tokens(self) -> int | None:
        """Any length."""
        return None

    async def call_engines(self, method: str) -> dict[int, UtilityResult]:
        """Nobody answers."""
        return {}

    def describe(self) -> dict[str, object]:
        """Nothing."""
        return {}

    def decisions(self, most: int) -> list[dict[str, object]]:
        """None."""
        return []
