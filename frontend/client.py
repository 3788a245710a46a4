"""DPLBClient: a frontend's way to all engines. Takes requests on, receives, and moves what dies."""

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Iterable

from cluster.config import ClusterConfig
from cluster.telemetry.logs import RateLimited
from cluster.wire.block_hash import HASH_SEED
from cluster.wire.endpoints import Endpoints
from cluster.wire.messages import (
    AbortRequests,
    BlockEvents,
    ClusterView,
    EngineCoreOutputs,
    EngineDeath,
    EngineGoodbye,
    EngineHello,
    Message,
    Utility,
    UtilityResult,
)
from cluster.wire.sockets import Context
from frontend.admission import Admission
from frontend.balancer import Balancer
from frontend.cluster_description import describe_deaths, describe_engines, describe_frontends
from frontend.cluster_link import ClusterLink
from frontend.cluster_view import EngineCounts, LiveView
from frontend.convictions import Convictions
from frontend.dispatcher import Dispatcher
from frontend.engine_book import EngineBook
from frontend.failover import Failover
from frontend.metrics import EngineKnowledge, FrontendMetrics
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream
from frontend.request_table import RequestTable
from frontend.suspicion import Suspicions
from frontend.utility_calls import UtilityCalls
from frontend.waiting_line import WaitingLine

TICK_SECONDS = 0.1
ANNOUNCE_SECONDS = 0.5
MOST_RESYNCS_A_TICK = 4
"""After the coordinator's return all engines may have to be asked: their caches come one by one."""
PROBE_DELAYS_SECONDS = (0.0, 0.01, 0.1)
"""A ROUTER forgets a peer a moment after its monitor has told of the closed connection."""


class DPLBClient:
    """Data-parallel, load-balancing client of N engines, as one frontend holds it.

    Every request has one `RequestStream`, from `submit` to its end, whatever happens to engines in
    between. A request is sent to one engine at a time, under an attempt number; what comes from an
    older attempt or a dead incarnation is dropped. When an engine is dead its requests go on in
    others, as the same requests with the tokens that have arrived (`docs/decisions/0004`), or wait
    here until there is one. Those that may have killed it go on alone (`docs/decisions/0012`).

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
        self._metrics = metrics
        self._logger = logging.getLogger("frontend.client")
        self._complaints = RateLimited(self._logger)
        self._view = LiveView(
            (index, incarnation),
            config.coordinator.suspect_after,
            time.monotonic(),
            config.engine.data_parallel_size,
        )
        settings = config.frontend
        self._waiting = WaitingLine(settings)
        self._suspicions = Suspicions(settings.max_migrations)
        self._convictions = Convictions(settings.conviction_timeout)
        self._dispatcher = Dispatcher(
            (index, incarnation),
            self._view,
            balancer,
            self._suspicions,
            metrics,
            self._send,
            config.engine.enable_prefix_caching,
        )
        self._admission = Admission(self._view, self._waiting, self._convictions, metrics)
        self._requests = RequestTable(
            settings, self._waiting, self._dispatcher, self._suspicions, self._convictions, metrics
        )
        self._failover = Failover(
            settings, self._requests, self._suspicions, self._convictions, metrics
        )
        self._calls = UtilityCalls()
        self._max_request_tokens: int | None = None
        self._is_leaving = False
        self._tasks: list[asyncio.Task[None]] = []
        self._probes: dict[float, asyncio.Handle] = {}
        """By delay: those that are still to come."""
        self._closed_at = 0.0
        self._early_hellos: dict[int, EngineHello] = {}
        """The newest hello of each rank that the coordinator has not told of."""

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
        for probe in self._probes.values():
            probe.cancel()
        self._link.close()

    def leave(self) -> None:
        """Take no new requests from now on; those that are here go on."""
        self._is_leaving = True

    async def wait_until_idle(self) -> None:
        """Return once no request is in flight."""
        await self._requests.wait_until_idle()

    def fail_all(self, error: str) -> None:
        """End every request that is here with this error, which says to come again."""
        self._requests.fail_all(error)

    # ── what routes ask ──

    @property
    def num_in_flight(self) -> int:
        """Requests that have not ended."""
        return len(self._requests)

    @property
    def num_ready_engines(self) -> int:
        """Engines that would get a request now."""
        return self.engine_counts.ready

    @property
    def engine_counts(self) -> EngineCounts:
        """How many engines there are, and how many of them serve."""
        return self._view.counts(time.monotonic())

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

    def check_room(self, sketch: GenerationRequest) -> None:
        """Raises what `submit` would, whatever the prompt is, if nothing more is taken on now."""
        self._admission.check_room(sketch, self.is_draining, time.monotonic())

    def submit(self, request: GenerationRequest) -> RequestStream:
        """Take a request on. Its stream ends exactly once, with an answer or an error.

        Raises what `Admission.check` does.
        """
        now = time.monotonic()
        self._admission.check(request, self.is_draining, now)
        return self._requests.take_on(request, now)

    def describe(self) -> dict[str, object]:
        """The cluster as this frontend sees it, for people and for `/cluster`."""
        now = time.monotonic()
        return {
            "answered_by": {"frontend": self._index, "incarnation": self._incarnation},
            "draining": self.is_draining,
            "num_engines": self._view.num_engines,
            "queued": len(self._waiting),
            "suspects": len(self._suspicions),
            "convictions": len(self._convictions),
            "engines": describe_engines(self._view, now),
            "frontends": describe_frontends(self._view),
            "deaths": describe_deaths(self._view, now),
        }

    def decisions(self, most: int) -> list[dict[str, object]]:
        """So many of the last choices of an engine, the newest first, and why."""
        return self._dispatcher.decisions.explain(time.monotonic(), most)

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

    def _send(self, book: EngineBook, message: Message) -> bool:
        return self._link.send(book.rank, book.incarnation, message)

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
        now = time.monotonic()
        if not self._view.is_announced(hello.rank, hello.incarnation, now):
            self._early_hellos[hello.rank] = (
                hello  # the next views will tell, unless it is a stranger
            )
            return
        death = self._view.welcome(hello, now)
        if self._view.is_current(hello.rank, hello.incarnation):
            self._view.books[hello.rank].heard_at = now
            size = min(hello.max_model_len, hello.num_blocks * hello.block_size)
            self._max_request_tokens = min(size, self._max_request_tokens or size)
        self._on_deaths([death] if death is not None else [])
        self._requests.serve_waiting()

    def on_outputs(self, outputs: EngineCoreOutputs) -> None:
        """Pass tokens on to their streams; those of the dead and of older attempts are dropped."""
        if not self._view.is_current(outputs.rank, outputs.incarnation):
            return
        now = time.monotonic()
        book = self._view.books[outputs.rank]
        if outputs.load is not None:
            book.accept(outputs.load, now)
        num_suspects = len(self._suspicions)
        for output in outputs.outputs:
            in_flight = self._requests.get(output.request_id)
            if in_flight is None or not in_flight.is_of(book, output.attempt):
                if output.finish_reason is not None:
                    book.settle_aborted(output.request_id)
                continue
            if output.first_output_index > in_flight.stream.num_output_tokens:
                self._complaints.warning("gap", "engine %d skipped tokens", book.rank)
                self._dispatcher.abort(in_flight)
                self._failover.on_skipped_tokens(in_flight)
                continue
            self._requests.take(in_flight, output, now)
        if self._waiting and (
            len(self._suspicions) < num_suspects or book.has_room(self._view.num_frontends, now)
        ):
            self._requests.serve_waiting()

    def on_goodbye(self, goodbye: EngineGoodbye) -> None:
        """Move an engine's requests at its own word, before anybody else has noticed."""
        death = self._view.bury(
            EngineDeath(
                goodbye.rank, goodbye.incarnation, goodbye.cause, not goodbye.drained, goodbye.flight
            ),
            time.monotonic(),
        )  # fmt: skip
        self._on_deaths([death] if death is not None else [])

    def on_utility_result(self, result: UtilityResult) -> None:
        """Hand an answer to whoever called."""
        self._calls.resolve(result)

    def on_view(self, view: ClusterView) -> None:
        """Believe the coordinator about who is dead, suspect, or ready again, and who is convicted."""
        now = time.monotonic()
        self._suspicions.acquit(self._convictions.merge(view.convictions, now))
        self._on_deaths(self._view.apply(view, now))
        early, self._early_hellos = self._early_hellos, {}
        for hello in early.values():
            self.on_hello(hello)
        self._requests.serve_waiting()

    def on_block_events(self, events: BlockEvents) -> None:
        """Keep up with what an engine's prefix cache holds."""
        self._view.accept_block_events(events)

    def on_connection_closed(self) -> None:
        """Try each engine, now and a moment later; many that close at once cost no more tries."""
        self._closed_at = asyncio.get_running_loop().time()
        for delay in PROBE_DELAYS_SECONDS:
            if delay not in self._probes:
                self._probe_in(delay, delay)

    def _probe_in(self, seconds: float, delay: float) -> None:
        loop = asyncio.get_running_loop()
        self._probes[delay] = loop.call_later(seconds, self._probe_engines, delay)

    def _probe_engines(self, delay: float) -> None:
        """Probe them so long after a connection closed, and again if another did meanwhile."""
        del self._probes[delay]
        self._probe(self._view.books.values())
        early_seconds = self._closed_at + delay - asyncio.get_running_loop().time()
        if early_seconds > 0:
            self._probe_in(early_seconds, delay)

    def _probe(self, books: Iterable[EngineBook]) -> None:
        for book in books:
            is_reachable = self._send(book, Utility(self._index, 0, "ping"))
            self._view.set_reachable(book.rank, is_reachable, time.monotonic())

    def _on_deaths(self, deaths: list[EngineDeath]) -> None:
        for death in deaths:
            key = (death.rank, death.incarnation)
            lost = self._requests.of_engine(key)
            self._calls.fail(*key, death.cause)
            # Should it be alive after all (a healed partition, SIGCONT), it is not to go on with them.
            lost_ids = [in_flight.request.request_id for in_flight in lost]
            self._link.send(*key, AbortRequests(self._index, self._incarnation, 0, lost_ids))
            num_convictions = self._convictions.num_learned
            self._failover.on_death(death, lost, self._view.unexplained)
            if self._convictions.num_learned > num_convictions:
                self._announce()  # the other frontends are to know at once

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
        self._metrics.loop_state(
            len(self._waiting),
            self._waiting.num_tokens,
            max(0.0, now - self._ticked_at - TICK_SECONDS),
        )
        self._ticked_at = now
        self._convictions.expire(now)
        self._on_deaths(self._view.expire(now))
        # Its queue may only have been full, or its connection away for longer than a moment.
        self._probe(book for book in self._view.books.values() if book.disconnected_at is not None)
        self._requests.serve_waiting()
        self._requests.fail_overdue(now)
        self._ask_for_missed_blocks(now)
        self._metrics.engines_known(
            {
                book.rank: EngineKnowledge(
                    now - book.heard_at, book.unacknowledged, book.prefix.num_blocks
                )
                for book in self._view.books.values()
            }
        )

    def _ask_for_missed_blocks(self, now: float) -> None:
        for book in self._view.resyncs_due(now)[:MOST_RESYNCS_A_TICK]:
            if self._send(book, Utility(self._index, 0, "publish_blocks")):
                book.note_resync_asked(now)
                self._metrics.resync_asked(book.rank)

    def _announce(self) -> None:
        """Tell the coordinator again and again, so that a new one knows this frontend at once."""
        convictions = self._convictions.own(time.monotonic())
        self._link.announce(len(self._requests), len(self._waiting), convictions)
