"""All requests that have not ended: those that wait here, and those that engines have."""

import asyncio
import logging
import time
import traceback
from collections.abc import Iterator

from cluster.config import FrontendConfig
from cluster.telemetry.logs import RateLimited
from cluster.wire.messages import EngineCoreOutput
from frontend.convictions import Convictions
from frontend.courier import Courier
from frontend.dispatcher import Dispatcher
from frontend.in_flight import InFlight
from frontend.metrics import FrontendMetrics
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream, Told
from frontend.suspicion import EngineKey, Suspicions
from frontend.tenant_shares import TenantShares
from frontend.waiting_line import WaitingLine

RETRY_AFTER_SECONDS = 5


class RequestTable:
    """Keeps each request from its coming to its end, which is exactly once."""

    def __init__(
        self,
        settings: FrontendConfig,
        waiting: WaitingLine,
        dispatcher: Dispatcher,
        suspicions: Suspicions,
        convictions: Convictions,
        metrics: FrontendMetrics,
    ) -> None:
        self._settings = settings
        self._waiting = waiting
        self._dispatcher = dispatcher
        self._suspicions = suspicions
        self._convictions = convictions
        self._metrics = metrics
        self._requests: dict[str, InFlight] = {}
        self._courier = Courier(metrics.counted_together)
        self._shares = TenantShares()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._complaints = RateLimited(logging.getLogger("frontend.requests"))

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[InFlight]:
        return iter(list(self._requests.values()))

    def get(self, request_id: str) -> InFlight | None:
        """The request of this id, if it has not ended."""
        return self._requests.get(request_id)

    def of_engine(self, key: EngineKey) -> list[InFlight]:
        """What this incarnation has."""
        return [
            in_flight
            for in_flight in self._requests.values()
            if in_flight.engine is not None
            and (in_flight.engine.rank, in_flight.engine.incarnation) == key
        ]

    async def wait_until_idle(self) -> None:
        """Return once no request is in flight."""
        await self._is_idle.wait()

    # ── coming and going on ──

    def take_on(self, request: GenerationRequest, now: float) -> RequestStream:
        """Send a request to an engine, or let it wait for one."""
        num_tokens = len(request.prompt_token_ids) + request.sampling.max_tokens
        # What pools has nothing that would have to be kept.
        pools = request.sampling.pooling is not None
        is_resumable = pools or num_tokens <= self._settings.max_resumable_tokens
        if not is_resumable:
            self._metrics.not_resumable()

        def on_told(told: Told) -> None:
            in_flight.measure_told(told, time.monotonic(), self._metrics)

        stream = RequestStream(request, self._on_abort, is_resumable, on_told, self._courier.call)
        in_flight = InFlight(stream, queued_at=now)
        self._requests[request.request_id] = in_flight
        self._is_idle.clear()
        self._waiting.join(in_flight)
        self.serve_waiting()
        return stream

    def put_back(self, requests: list[InFlight]) -> None:
        """Send those that have lost their engine to others; who gets none waits first."""
        for in_flight in requests:
            self._shares.release(in_flight.request.request_id)
        self._waiting.join_first(requests)
        self.serve_waiting()

    def serve_waiting(self) -> None:
        """Send what waits, as far as there is room."""
        if self._waiting:
            self._waiting.serve(self._dispatch, self._dispatcher.has_room, self._may_overtake)

    def _may_overtake(self, tenant: str) -> bool:
        """Whether engines start a request of this tenant before all that waits there of others."""
        return self._shares.holds_little(tenant, self._dispatcher.num_places)

    def _dispatch(self, in_flight: InFlight) -> bool:
        """Send a request, if any engine takes it now, and it was not convicted while it waited."""
        if in_flight.num_convictions_checked != self._convictions.num_learned:
            in_flight.num_convictions_checked = self._convictions.num_learned
            if self._convictions.hold_against(in_flight.request):
                self.fail(in_flight, "the same request has ended the engines that served it")
                return False
        tenant = in_flight.request.tenant
        try:
            is_sent = self._dispatcher.dispatch(in_flight, self._may_overtake(tenant))
        except Exception:  # noqa: BLE001 - logged; one request costs no other its turn
            self._complaints.warning("dispatch", "a dispatch failed: %s", traceback.format_exc())
            self.fail(in_flight, "the request could not be sent to an engine")
            return False
        if is_sent:
            self._shares.take(in_flight.request.request_id, tenant)
        return is_sent

    def take(self, in_flight: InFlight, output: EngineCoreOutput, now: float) -> None:
        """Pass an output of its engine on, which may be the last."""
        assert in_flight.engine is not None, f"{output.request_id} is with no engine"
        in_flight.take(output, now, self._metrics)
        in_flight.engine.begin(output.request_id)
        if output.finish_reason is not None:
            in_flight.engine.settle(output.request_id)
            self._end(in_flight)
        else:
            self._suspicions.clear(output.request_id, in_flight.num_output_tokens)

    # ── the end ──

    def fail(self, in_flight: InFlight, error: str, retry_after_seconds: int | None = None) -> None:
        """End a request with an error; with `retry_after_seconds`, one that says to come again."""
        self._waiting.leave(in_flight)
        self._dispatcher.abort(in_flight)
        in_flight.stream.fail(error, retry_after_seconds)
        self._end(in_flight)

    def fail_all(self, error: str) -> None:
        """End every request with this error, which says to come again."""
        for in_flight in self:
            self.fail(in_flight, error, RETRY_AFTER_SECONDS)

    def fail_overdue(self, now: float) -> None:
        """End those that have waited too long for an engine."""
        for in_flight in self._waiting.overdue(now):
            self._metrics.refused("queue timeout")
            self.fail(in_flight, "no engine became ready in time", RETRY_AFTER_SECONDS)

    def _on_abort(self, stream: RequestStream) -> None:
        in_flight = self._requests[stream.request.request_id]
        self._waiting.leave(in_flight)
        self._dispatcher.abort(in_flight)
        self._end(in_flight)

    def _end(self, in_flight: InFlight) -> None:
        request_id = in_flight.request.request_id
        del self._requests[request_id]
        self._shares.release(request_id)
        self._suspicions.forget(request_id)
        if not self._requests:
            self._is_idle.set()
