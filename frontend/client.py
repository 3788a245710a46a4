"""DPLBClient: a frontend's link to all engines. Chooses, sends, receives, and moves what dies."""

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass

import zmq
from zmq.utils.monitor import parse_monitor_message

from cluster.config import ClusterConfig
from cluster.errors import DecodeError, InvalidRequest, NotServing, ProtocolMismatch
from cluster.telemetry.logs import RateLimited
from cluster.wire.codec import Decoder, Encoder, check_protocol_version
from cluster.wire.endpoints import VIEW_TOPIC, Endpoints
from cluster.wire.ids import engine_identity
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    AbortRequests,
    AddRequest,
    ClusterView,
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineGoodbye,
    EngineHello,
    EngineToFrontend,
    FrontendHello,
    FrontendReport,
    Message,
    Utility,
    UtilityResult,
)
from cluster.wire.sampling import FinishReason
from cluster.wire.sockets import (
    Context,
    LoopReader,
    bind_pull,
    bind_router,
    connect_reports,
    connect_sub,
    try_send,
)
from frontend.balancer import Balancer
from frontend.cluster_description import describe_engines, describe_frontends
from frontend.cluster_view import EngineDeath, LiveView
from frontend.engine_book import EngineBook
from frontend.metrics import FrontendMetrics
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream

TICK_SECONDS = 0.1
ANNOUNCE_SECONDS = 0.5
RETRY_AFTER_SECONDS = 5
PROBE_DELAYS_SECONDS = (0.0, 0.01, 0.1)
"""A ROUTER forgets a peer a moment after its monitor has told of the closed connection."""


@dataclass(slots=True, eq=False)
class InFlight:
    """A request that has not ended, and the engine that has it."""

    stream: RequestStream
    attempt: int = -1
    engine: EngineBook | None = None
    """None while it waits for an engine."""
    queued_at: float = 0.0
    first_token_at: float | None = None
    last_token_at: float | None = None
    is_moving: bool = False
    """Its engine has died, and no token has come from the next one yet."""
    num_fault_moves: int = 0

    @property
    def request(self) -> GenerationRequest:
        """What was asked for."""
        return self.stream.request


class DPLBClient:
    """Data-parallel, load-balancing client of N engines, as one frontend holds it.

    Every request has one `RequestStream`, from `submit` to its end, whatever happens to engines in
    between. A request is sent to one engine at a time, under an attempt number; what comes from an
    older attempt or a dead incarnation is dropped. When an engine is dead its requests go on in
    others, as the same requests with the tokens that have arrived (`docs/decisions/0004`), or wait
    here until there is one.

    All methods belong to the event loop that `start` ran on.
    """

    def __init__(
        self,
        config: ClusterConfig,
        index: int,
        incarnation: int,
        context: Context,
        balancer: Balancer,
        metrics: FrontendMetrics,
    ) -> None:
        self._config = config
        self._index, self._incarnation = index, incarnation
        self._context = context
        self._balancer = balancer
        self._metrics = metrics
        self._logger = logging.getLogger("frontend.client")
        self._complaints = RateLimited(self._logger)
        self._encoder = Encoder()
        self._from_engines: Decoder[EngineToFrontend] = Decoder(EngineToFrontend)
        self._from_coordinator: Decoder[ClusterView] = Decoder(ClusterView)
        self._view = LiveView(
            (index, incarnation), config.coordinator.suspect_after, time.monotonic()
        )
        self._requests: dict[str, InFlight] = {}
        self._waiting: deque[InFlight] = deque()
        self._utility_calls: dict[int, tuple[int, asyncio.Future[UtilityResult]]] = {}
        self._last_call_id = 0
        self._is_leaving = False
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._probes: set[asyncio.TimerHandle] = set()

    # ── life ──

    async def start(self) -> None:
        """Bind the sockets, announce this frontend, and begin to listen."""
        endpoints = Endpoints(self._config.run_directory)
        own = endpoints.frontend(self._index, self._incarnation)
        self._router = bind_router(self._context, own.requests)
        self._outputs = bind_pull(self._context, own.outputs)
        self._view_socket = connect_sub(self._context, endpoints.view, VIEW_TOPIC)
        self._reports = connect_reports(self._context, endpoints.reports)
        self._monitor = self._router.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._hello = FrontendHello(
            PROTOCOL_VERSION, self._index, self._incarnation, own.requests, own.outputs
        )
        loop = asyncio.get_running_loop()
        self._router_reader = LoopReader(loop, self._router, self._on_router)
        self._readers = [
            self._router_reader,
            LoopReader(loop, self._outputs, self._on_outputs),
            LoopReader(loop, self._view_socket, self._on_view),
            LoopReader(loop, self._monitor, self._on_connection_event),
        ]
        self._tasks = [loop.create_task(self._tick()), loop.create_task(self._announce())]

    async def stop(self) -> None:
        """End what is left with an error, and release the sockets."""
        self.fail_all("the server is shutting down")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for probe in self._probes:
            probe.cancel()
        for reader in self._readers:
            reader.close()
        self._router.disable_monitor()
        for socket in (self._router, self._outputs, self._view_socket, self._reports):
            socket.close()
        self._monitor.close()

    def leave(self) -> None:
        """Take no new requests from now on; those that are here go on."""
        self._is_leaving = True

    async def wait_until_idle(self) -> None:
        """Return once no request is in flight."""
        await self._is_idle.wait()

    def fail_all(self, error: str) -> None:
        """End every request that is here with this error, which says to come again."""
        for in_flight in list(self._requests.values()):
            self._fail(in_flight, error, RETRY_AFTER_SECONDS)

    # ── what routes ask ──

    @property
    def num_in_flight(self) -> int:
        """Requests that have not ended."""
        return len(self._requests)

    @property
    def num_ready_engines(self) -> int:
        """Engines that would get a request now."""
        now = time.monotonic()
        return sum(self._view.may_choose(book, now) for book in self._view.books.values())

    @property
    def is_draining(self) -> bool:
        """Whether this frontend, or the whole cluster, is on its way out."""
        return self._is_leaving or self._view.is_draining

    def max_request_tokens(self) -> int | None:
        """Longest prompt plus answer that fits every engine's KV cache; None while unknown."""
        sizes = [
            min(book.hello.max_model_len, book.hello.num_blocks * book.hello.block_size)
            for book in self._view.books.values()
        ]
        return min(sizes, default=None)

    def submit(self, request: GenerationRequest) -> RequestStream:
        """Take a request on. Its stream ends exactly once, with an answer or an error.

        Raises NotServing while draining or when too many wait already, InvalidRequest if it is
        pinned to an engine that the cluster does not have.
        """
        if self.is_draining:
            self._metrics.refused("draining")
            raise NotServing("the server is shutting down", RETRY_AFTER_SECONDS)
        if len(self._waiting) >= self._config.frontend.max_queued_requests:
            self._metrics.refused("queue full")
            raise NotServing("no engine is ready and the queue is full", RETRY_AFTER_SECONDS)
        self._check_pin(request.pinned_rank)
        in_flight = InFlight(RequestStream(request, self._on_abort), queued_at=time.monotonic())
        self._requests[request.request_id] = in_flight
        self._is_idle.clear()
        if self._waiting or not self._dispatch(in_flight):
            self._wait(in_flight)
        return in_flight.stream

    def describe(self) -> dict[str, object]:
        """The cluster as this frontend sees it, for people and for `/cluster`."""
        return {
            "answered_by": {"frontend": self._index, "incarnation": self._incarnation},
            "draining": self.is_draining,
            "engines": describe_engines(self._view, time.monotonic()),
            "frontends": describe_frontends(self._view),
        }

    async def call_engines(
        self, method: str, timeout_seconds: float = 10.0
    ) -> dict[int, UtilityResult]:
        """Call a method on every engine that is there; one that dies meanwhile answers so."""
        calls = {
            rank: future
            for rank, book in self._view.books.items()
            if (future := self._call(book, method)) is not None
        }
        async with asyncio.timeout(timeout_seconds):
            return dict(zip(calls, await asyncio.gather(*calls.values()), strict=True))

    # ── sending ──

    def _check_pin(self, rank: int | None) -> None:
        if rank is None:
            return
        size = self._config.engine.data_parallel_size
        if not 0 <= rank < size:
            raise InvalidRequest(
                f"data_parallel_rank must be between 0 and {size - 1}, not {rank}",
                param="data_parallel_rank",
            )
        book = self._view.books.get(rank)
        if book is None or not self._view.may_choose(book, time.monotonic()):
            raise NotServing(f"engine {rank} is not serving", RETRY_AFTER_SECONDS)

    def _dispatch(self, in_flight: InFlight) -> bool:
        """Send a request to the best engine that takes it; False if none does."""
        now = time.monotonic()
        view = self._view.routing_view(now)
        # A pin is for the first engine; a request that has lost it is better off anywhere.
        pinned_rank = in_flight.request.pinned_rank if in_flight.attempt < 0 else None
        loads = [load for load in view.loads if pinned_rank in (None, load.rank)]
        num_tokens = len(in_flight.request.prompt_token_ids) + len(in_flight.stream.token_ids)
        while choice := self._balancer.choose(view._replace(loads=loads), num_tokens):
            book = self._view.books[choice.rank]
            if self._send_add(in_flight, book, num_tokens, now):
                self._metrics.routed(choice.rank, self._balancer.policy_name, choice.cost_seconds)
                return True
            self._view.set_reachable(choice.rank, False, now)
            loads = [load for load in loads if load.rank != choice.rank]
        return False

    def _send_add(self, in_flight: InFlight, book: EngineBook, num_tokens: int, now: float) -> bool:
        request = in_flight.request
        message = AddRequest(
            request_id=request.request_id,
            frontend_index=self._index,
            frontend_incarnation=self._incarnation,
            dispatch_seq=book.dispatch(request.request_id, num_tokens),
            attempt=in_flight.attempt + 1,
            prompt_token_ids=request.prompt_token_ids,
            output_token_ids=in_flight.stream.token_ids,
            block_hashes=request.block_hashes,
            sampling=request.sampling,
            priority=request.priority,
            cache_salt=request.cache_salt,
            age_seconds=now - request.arrived_at,
            traceparent=request.traceparent,
        )
        if not self._send(book, message):
            book.undo_dispatch(request.request_id)
            return False
        in_flight.attempt += 1
        in_flight.engine = book
        in_flight.stream.engine_rank = book.rank
        return True

    def _send(self, book: EngineBook, message: Message) -> bool:
        identity = engine_identity(book.rank, book.incarnation)
        was_taken = try_send(self._router, [identity, *self._encoder.encode(message)])
        self._router_reader.poke()
        return was_taken

    def _send_abort(self, in_flight: InFlight, book: EngineBook) -> None:
        request_id = in_flight.request.request_id
        seq = book.withdraw(request_id, has_begun=in_flight.first_token_at is not None)
        abort = AbortRequests(self._index, self._incarnation, seq, [request_id])
        if not self._send(book, abort):
            self._complaints.warning("abort", "engine %d did not take an abort", book.rank)

    def _call(self, book: EngineBook, method: str) -> asyncio.Future[UtilityResult] | None:
        self._last_call_id += 1
        if not self._send(book, Utility(self._index, self._last_call_id, method)):
            return None
        future: asyncio.Future[UtilityResult] = asyncio.get_running_loop().create_future()
        self._utility_calls[self._last_call_id] = (book.rank, future)
        return future

    # ── receiving ──

    def _on_router(self, frames: list[bytes]) -> None:
        message = self._decode(frames[1:])
        if isinstance(message, EngineHello):
            self._on_hello(message, identity=frames[0])
        elif message is not None:
            self._complain(f"{type(message).__name__} does not come this way")

    def _on_outputs(self, frames: list[bytes]) -> None:
        match self._decode(frames):
            case EngineCoreOutputs() as outputs:
                self._on_core_outputs(outputs)
            case UtilityResult() as result:
                _, future = self._utility_calls.pop(result.call_id, (0, None))
                if future is not None and not future.done():
                    future.set_result(result)
            case EngineGoodbye() as goodbye:
                cause = "drained" if goodbye.drained else f"error: {goodbye.reason}"
                death = self._view.bury(
                    goodbye.rank, goodbye.incarnation, cause, fault=not goodbye.drained
                )
                if death is not None:
                    self._on_deaths([death._replace(suspects=frozenset(goodbye.request_ids))])
            case EngineHello():
                self._complain("EngineHello does not come this way")
            case None:
                pass

    def _decode(self, frames: list[bytes]) -> EngineToFrontend | None:
        try:
            return self._from_engines.decode(frames)
        except DecodeError as error:
            self._complain(str(error))
            return None

    def _complain(self, text: str) -> None:
        self._metrics.bad_frame()
        self._complaints.warning("bad frame", "dropped a bad frame: %s", text)

    def _on_hello(self, hello: EngineHello, identity: bytes) -> None:
        if identity != engine_identity(hello.rank, hello.incarnation):
            self._complain(f"engine {hello.rank}.{hello.incarnation} under a wrong identity")
            return
        try:
            check_protocol_version(hello.protocol_version, f"engine {hello.rank}")
        except ProtocolMismatch as error:
            self._complain(str(error))
            return
        death = self._view.welcome(hello)
        if self._view.is_current(hello.rank, hello.incarnation):
            self._view.books[hello.rank].heard_at = time.monotonic()
        self._on_deaths([death] if death is not None else [])
        self._dispatch_waiting()

    def _on_view(self, frames: list[bytes]) -> None:
        try:
            view = self._from_coordinator.decode(frames[1:])
        except DecodeError as error:
            self._complain(str(error))
            return
        self._on_deaths(self._view.apply(view, time.monotonic()))
        self._dispatch_waiting()

    def _on_core_outputs(self, message: EngineCoreOutputs) -> None:
        if not self._view.is_current(message.rank, message.incarnation):
            return  # a dead incarnation: whatever it says, others are at its work already
        now = time.monotonic()
        book = self._view.books[message.rank]
        if message.load is not None:
            book.accept(message.load, now)
        for output in message.outputs:
            in_flight = self._requests.get(output.request_id)
            if in_flight is None or (in_flight.engine, in_flight.attempt) != (book, output.attempt):
                continue  # aborted here meanwhile, or of an older attempt
            self._on_output(in_flight, output, book, now)

    def _on_output(
        self, in_flight: InFlight, output: EngineCoreOutput, book: EngineBook, now: float
    ) -> None:
        stream = in_flight.stream
        known = len(stream.token_ids)
        stream.put(output)
        fresh = len(stream.token_ids) - known
        if fresh:
            self._measure_tokens(in_flight, fresh, book.rank, now)
        if output.cached_tokens is not None and in_flight.attempt == 0:
            stream.cached_tokens = output.cached_tokens
        if output.finish_reason is not None:
            book.settle(output.request_id)
            self._end(in_flight, output.finish_reason, now)

    def _measure_tokens(self, in_flight: InFlight, fresh: int, rank: int, now: float) -> None:
        request = in_flight.request
        self._metrics.tokens(rank, fresh)
        if in_flight.first_token_at is None or in_flight.last_token_at is None:
            in_flight.first_token_at = now
            prompt_tokens = len(request.prompt_token_ids)
            self._metrics.first_token(rank, now - request.arrived_at, prompt_tokens)
        else:
            self._metrics.next_tokens(rank, now - in_flight.last_token_at)
            if in_flight.is_moving:
                self._metrics.resumed(now - in_flight.last_token_at)
        in_flight.is_moving = False
        in_flight.last_token_at = now

    # ── the end of requests ──

    def _end(self, in_flight: InFlight, reason: FinishReason, now: float) -> None:
        request, stream = in_flight.request, in_flight.stream
        del self._requests[request.request_id]
        if not self._requests:
            self._is_idle.set()
        decoding = 0.0
        if in_flight.first_token_at is not None and in_flight.last_token_at is not None:
            decoding = in_flight.last_token_at - in_flight.first_token_at
        self._metrics.ended(
            stream.engine_rank,
            reason,
            now - request.arrived_at,
            len(request.prompt_token_ids),
            len(stream.token_ids),
            decoding,
        )

    def _on_abort(self, stream: RequestStream, reason: FinishReason) -> None:
        in_flight = self._requests[stream.request.request_id]
        if in_flight.engine is None:
            self._waiting.remove(in_flight)
        else:
            self._send_abort(in_flight, in_flight.engine)
        self._end(in_flight, reason, time.monotonic())

    def _fail(
        self, in_flight: InFlight, error: str, retry_after_seconds: int | None = None
    ) -> None:
        if in_flight.engine is None:
            self._waiting.remove(in_flight)
        elif self._view.is_current(in_flight.engine.rank, in_flight.engine.incarnation):
            self._send_abort(in_flight, in_flight.engine)
        in_flight.stream.fail(error, retry_after_seconds)
        self._end(in_flight, FinishReason.ERROR, time.monotonic())

    # ── failover ──

    def _on_deaths(self, deaths: list[EngineDeath]) -> None:
        """Let every request of dead incarnations go on elsewhere, or wait."""
        for death in deaths:
            victims = [
                in_flight
                for in_flight in self._requests.values()
                if in_flight.engine is not None
                and (in_flight.engine.rank, in_flight.engine.incarnation) == death[:2]
            ]
            self._logger.warning(
                "engine %d.%d is gone (%s): %d requests move",
                death.rank, death.incarnation, death.cause, len(victims),
            )  # fmt: skip
            for rank, future in self._utility_calls.values():
                if rank == death.rank and not future.done():
                    future.set_result(UtilityResult(rank, death.incarnation, 0, error=death.cause))
            for in_flight in victims:
                self._move(in_flight, death)

    def _move(self, in_flight: InFlight, death: EngineDeath) -> None:
        book, in_flight.engine = in_flight.engine, None
        in_flight.stream.engine_rank = None
        assert book is not None
        # Should it be alive after all (a healed partition, SIGCONT), it is not to go on with this.
        abort = AbortRequests(self._index, self._incarnation, 0, [in_flight.request.request_id])
        self._send(book, abort)
        is_suspect = not death.suspects or in_flight.request.request_id in death.suspects
        in_flight.num_fault_moves += death.fault and is_suspect
        in_flight.queued_at = time.monotonic()
        if in_flight.num_fault_moves > self._config.frontend.max_migrations:
            self._wait(in_flight)
            self._fail(in_flight, f"the engines that served this request failed ({death.cause})")
            return
        if in_flight.stream.token_ids:
            in_flight.is_moving = True
            in_flight.stream.num_migrations += 1
            self._metrics.moved(death.cause.partition(":")[0])
        if not self._dispatch(in_flight):
            self._wait(in_flight)

    def _wait(self, in_flight: InFlight) -> None:
        """Hold a request here; one that has begun goes before those that have not."""
        if in_flight.attempt >= 0:
            self._waiting.appendleft(in_flight)
        else:
            self._waiting.append(in_flight)

    def _dispatch_waiting(self) -> None:
        if self._waiting and self.num_ready_engines:
            self._waiting = deque(held for held in self._waiting if not self._dispatch(held))

    def _on_connection_event(self, frames: list[bytes]) -> None:
        """A connection has closed; the monitor does not say whose, so each engine is tried."""
        if parse_monitor_message(frames)["event"] == zmq.EVENT_DISCONNECTED:
            loop = asyncio.get_running_loop()
            self._probes = {probe for probe in self._probes if probe.when() > loop.time()}
            self._probes |= {loop.call_later(s, self._probe_engines) for s in PROBE_DELAYS_SECONDS}

    def _probe_engines(self) -> None:
        for book in list(self._view.books.values()):
            is_reachable = self._send(book, Utility(self._index, 0, "ping"))
            self._view.set_reachable(book.rank, is_reachable, time.monotonic())

    # ── clocks ──

    async def _tick(self) -> None:
        """Look at what only time brings about: lost engines, requests that waited too long."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            self._on_deaths(self._view.expire(now))
            self._dispatch_waiting()
            for in_flight in list(self._waiting):
                if now - in_flight.queued_at > self._config.frontend.queue_timeout:
                    self._metrics.refused("queue timeout")
                    self._fail(in_flight, "no engine became ready in time", RETRY_AFTER_SECONDS)
            self._metrics.loop_state(len(self._waiting), max(0.0, loop.time() - due))
            for book in self._view.books.values():
                self._metrics.engine_known(book.rank, now - book.heard_at, book.unacknowledged)

    async def _announce(self) -> None:
        """Tell the coordinator again and again, so that a new one knows this frontend at once."""
        while True:
            report = FrontendReport(
                self._index, self._incarnation, len(self._requests), len(self._waiting)
            )
            for message in (self._hello, report):
                try_send(self._reports, self._encoder.encode(message))
            await asyncio.sleep(ANNOUNCE_SECONDS)
