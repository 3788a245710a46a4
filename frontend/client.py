"""DPLBClient: a frontend's way to all engines. Chooses, sends, receives, and moves what dies."""

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Iterable, Set

from cluster.config import ClusterConfig
from cluster.errors import InvalidRequest, NotServing
from cluster.telemetry.logs import RateLimited
from cluster.wire.block_hash import HASH_SEED
from cluster.wire.endpoints import Endpoints
from cluster.wire.messages import (
    AbortRequests,
    ClusterView,
    EngineCoreOutputs,
    EngineGoodbye,
    EngineHello,
    Message,
    Utility,
    UtilityResult,
)
from cluster.wire.sampling import FinishReason
from cluster.wire.sockets import Context
from frontend.balancer import Balancer
from frontend.cluster_description import describe_engines, describe_frontends
from frontend.cluster_link import ClusterLink
from frontend.cluster_view import EngineDeath, LiveView
from frontend.engine_book import EngineBook
from frontend.in_flight import InFlight
from frontend.metrics import FrontendMetrics
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream
from frontend.utility_calls import UtilityCalls
from frontend.waiting_line import WaitingLine

TICK_SECONDS = 0.1
ANNOUNCE_SECONDS = 0.5
RETRY_AFTER_SECONDS = 5
PROBE_DELAYS_SECONDS = (0.0, 0.01, 0.1)
"""A ROUTER forgets a peer a moment after its monitor has told of the closed connection."""


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
        self._view = LiveView(
            (index, incarnation), config.coordinator.suspect_after, time.monotonic()
        )
        self._requests: dict[str, InFlight] = {}
        self._waiting = WaitingLine()
        self._calls = UtilityCalls()
        self._max_request_tokens: int | None = None
        self._is_leaving = False
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._probes: set[asyncio.TimerHandle] = set()

    # ── life ──

    async def start(self) -> None:
        """Bind the sockets, announce this frontend, and begin to listen."""
        frontend = (self._index, self._incarnation)
        endpoints = Endpoints(self._config.run_directory)
        self._link = ClusterLink(self._context, endpoints, frontend, self, self._metrics.bad_frame)
        self._ticked_at = time.monotonic()
        self._tasks = [
            asyncio.create_task(self._repeat(self._announce, ANNOUNCE_SECONDS)),
            asyncio.create_task(self._repeat(self._tick, TICK_SECONDS)),
        ]

    async def stop(self) -> None:
        """End what is left with an error, and release the sockets."""
        self.fail_all("the server is shutting down")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for probe in self._probes:
            probe.cancel()
        self._link.close()

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
    def are_all_engines_dead(self) -> bool:
        """Whether every engine has died and none is starting again yet."""
        return self._view.are_all_engines_dead

    @property
    def is_draining(self) -> bool:
        """Whether this frontend, or the whole cluster, is on its way out."""
        return self._is_leaving or self._view.is_draining

    def max_request_tokens(self) -> int | None:
        """Longest prompt plus answer that fits an engine; None before any has been there."""
        return self._max_request_tokens

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
        self._waiting.join(in_flight)
        self._dispatch_waiting()
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
        """Call a method on every engine; one that dies meanwhile or does not answer in time says so."""
        answers = []
        for book in self._view.books.values():
            call_id, answer = self._calls.open(book.rank, book.incarnation, timeout_seconds)
            answers.append(answer)
            if not self._send(book, Utility(self._index, call_id, method)):
                self._calls.fail(book.rank, book.incarnation, "not reachable")
        return {result.rank: result for result in await asyncio.gather(*answers)}

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
        loads = [load for load in view.loads if in_flight.may_go_to(self._view.books[load.rank])]
        num_tokens = in_flight.num_context_tokens
        while choice := self._balancer.choose(view._replace(loads=loads), num_tokens):
            book = self._view.books[choice.rank]
            if self._send_add(in_flight, book, now):
                self._metrics.routed(choice.rank, self._balancer.policy_name, choice.cost_seconds)
                return True
            self._view.set_reachable(choice.rank, False, now)
            loads = [load for load in loads if load.rank != choice.rank]
        return False

    def _send_add(self, in_flight: InFlight, book: EngineBook, now: float) -> bool:
        request_id = in_flight.request.request_id
        seq = book.dispatch(request_id, in_flight.num_context_tokens)
        message = in_flight.next_attempt(self._index, self._incarnation, seq, now)
        if not self._send(book, message):
            book.undo_dispatch(request_id)
            return False
        in_flight.assign(book)
        return True

    def _send(self, book: EngineBook, message: Message) -> bool:
        return self._link.send(book.rank, book.incarnation, message)

    def _send_abort(self, in_flight: InFlight, book: EngineBook) -> None:
        request_id = in_flight.request.request_id
        seq = book.withdraw(request_id, has_begun=in_flight.first_token_at is not None)
        abort = AbortRequests(self._index, self._incarnation, seq, [request_id])
        if not self._send(book, abort):
            self._complaints.warning("abort", "engine %d did not take an abort", book.rank)

    # ── receiving: what the link calls ──

    def on_hello(self, hello: EngineHello) -> None:
        """An engine is ready to serve, and what waits here can go to it, if it counts as we do."""
        block_size = self._config.engine.block_size
        if (hello.block_size, hello.hash_seed) != (block_size, HASH_SEED):
            self._complaints.warning(
                f"refused {hello.rank}",
                "engine %d.%d is refused: its block_size %d and hash_seed %r are not %d and %r",
                hello.rank, hello.incarnation, hello.block_size, hello.hash_seed,
                block_size, HASH_SEED,
            )  # fmt: skip
            return
        death = self._view.welcome(hello)
        if self._view.is_current(hello.rank, hello.incarnation):
            self._view.books[hello.rank].heard_at = time.monotonic()
            size = min(hello.max_model_len, hello.num_blocks * hello.block_size)
            self._max_request_tokens = min(size, self._max_request_tokens or size)
        self._on_deaths([death] if death is not None else [])
        self._dispatch_waiting()

    def on_outputs(self, outputs: EngineCoreOutputs) -> None:
        """Pass tokens on to their streams; those of the dead and of older attempts are dropped."""
        if not self._view.is_current(outputs.rank, outputs.incarnation):
            return
        now = time.monotonic()
        book = self._view.books[outputs.rank]
        if outputs.load is not None:
            book.accept(outputs.load, now)
        for output in outputs.outputs:
            in_flight = self._requests.get(output.request_id)
            if in_flight is None or not in_flight.is_of(book, output.attempt):
                continue
            if output.first_output_index > len(in_flight.stream.token_ids):
                self._complaints.warning("gap", "engine %d skipped tokens", book.rank)
                self._send_abort(in_flight, book)
                self._move([in_flight], "skipped tokens", {output.request_id})
                continue
            in_flight.take(output, now, self._metrics)
            if output.finish_reason is not None:
                book.settle(output.request_id)
                self._end(in_flight, output.finish_reason, now)

    def on_goodbye(self, goodbye: EngineGoodbye) -> None:
        """Move an engine's requests at its own word, before anybody else has noticed."""
        death = self._view.bury(
            goodbye.rank, goodbye.incarnation, goodbye.cause, fault=not goodbye.drained
        )
        if death is not None:
            self._on_deaths([death._replace(suspects=frozenset(goodbye.request_ids))])

    def on_utility_result(self, result: UtilityResult) -> None:
        """Hand an answer to whoever called."""
        self._calls.resolve(result)

    def on_view(self, view: ClusterView) -> None:
        """Believe the coordinator about who is dead, suspect, or ready again."""
        self._on_deaths(self._view.apply(view, time.monotonic()))
        self._dispatch_waiting()

    def on_connection_closed(self) -> None:
        """Try each engine, now and a moment later."""
        loop = asyncio.get_running_loop()
        self._probes = {probe for probe in self._probes if probe.when() > loop.time()}
        self._probes |= {loop.call_later(s, self._probe_engines) for s in PROBE_DELAYS_SECONDS}

    def _probe_engines(self) -> None:
        self._probe(self._view.books.values())

    def _probe(self, books: Iterable[EngineBook]) -> None:
        for book in books:
            is_reachable = self._send(book, Utility(self._index, 0, "ping"))
            self._view.set_reachable(book.rank, is_reachable, time.monotonic())

    # ── the end of requests ──

    def _end(self, in_flight: InFlight, reason: FinishReason, now: float) -> None:
        del self._requests[in_flight.request.request_id]
        if not self._requests:
            self._is_idle.set()
        in_flight.measure_end(reason, now, self._metrics)

    def _on_abort(self, stream: RequestStream, reason: FinishReason) -> None:
        in_flight = self._requests[stream.request.request_id]
        self._waiting.leave(in_flight)
        if in_flight.engine is not None:
            self._send_abort(in_flight, in_flight.engine)
        self._end(in_flight, reason, time.monotonic())

    def _fail(
        self, in_flight: InFlight, error: str, retry_after_seconds: int | None = None
    ) -> None:
        self._waiting.leave(in_flight)
        if in_flight.engine is not None:
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
            self._logger.log(
                logging.WARNING if victims else logging.DEBUG,
                "engine %d.%d is gone (%s): %d requests move",
                death.rank, death.incarnation, death.cause, len(victims),
            )  # fmt: skip
            self._calls.fail(death.rank, death.incarnation, death.cause)
            # Should it be alive after all (a healed partition, SIGCONT), it is not to go on with them.
            victim_ids = [in_flight.request.request_id for in_flight in victims]
            abort = AbortRequests(self._index, self._incarnation, 0, victim_ids)
            self._link.send(death.rank, death.incarnation, abort)
            guilty_ids = (death.suspects or set(victim_ids)) if death.fault else set()
            self._move(victims, death.cause, guilty_ids)

    def _move(self, victims: list[InFlight], cause: str, guilty_ids: Set[str]) -> None:
        """Send requests that have lost their engine to others; what no engine takes waits first."""
        for in_flight in victims:
            in_flight.assign(None)
            in_flight.queued_at = time.monotonic()
            in_flight.num_fault_moves += in_flight.request.request_id in guilty_ids
        limit = self._config.frontend.max_migrations
        for in_flight in victims:
            if in_flight.num_fault_moves > limit:
                self._fail(in_flight, f"the engines that served this request failed ({cause})")
            elif in_flight.stream.token_ids:
                in_flight.is_moving = True
                in_flight.stream.num_migrations += 1
                self._metrics.moved(cause.partition(":")[0])
        moving = [in_flight for in_flight in victims if in_flight.num_fault_moves <= limit]
        self._waiting.join_first(moving)
        self._dispatch_waiting()

    def _dispatch_waiting(self) -> None:
        if self._waiting and self.num_ready_engines:
            self._waiting.serve(self._dispatch)

    # ── clocks ──

    async def _repeat(self, turn: Callable[[], None], seconds: float) -> None:
        """Take a turn every so often, for ever: what goes wrong in one must not end the others."""
        while True:
            try:
                turn()
            except Exception:  # noqa: BLE001 - logged, but not each time
                self._complaints.warning("turn", "a turn failed: %s", traceback.format_exc())
            await asyncio.sleep(seconds)

    def _tick(self) -> None:
        """Look at what only time brings about: lost engines, requests that waited too long."""
        now = time.monotonic()
        self._metrics.loop_state(len(self._waiting), max(0.0, now - self._ticked_at - TICK_SECONDS))
        self._ticked_at = now
        self._on_deaths(self._view.expire(now))
        # Its queue may only have been full, or its connection away for longer than a moment.
        self._probe(book for book in self._view.books.values() if book.disconnected_at is not None)
        self._dispatch_waiting()
        for in_flight in self._waiting:
            if now - in_flight.queued_at > self._config.frontend.queue_timeout:
                self._metrics.refused("queue timeout")
                self._fail(in_flight, "no engine became ready in time", RETRY_AFTER_SECONDS)
        for book in self._view.books.values():
            self._metrics.engine_known(book.rank, now - book.heard_at, book.unacknowledged)

    def _announce(self) -> None:
        """Tell the coordinator again and again, so that a new one knows this frontend at once."""
        self._link.announce(len(self._requests), len(self._waiting))
