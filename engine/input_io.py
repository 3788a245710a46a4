"""The engine's input thread: what frontends send, and which frontends there are."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import zmq

from cluster.errors import DecodeError, WireError
from cluster.telemetry.logs import RateLimited
from cluster.wire.codec import Decoder, Encoder
from cluster.wire.endpoints import VIEW_TOPIC, Endpoints
from cluster.wire.ids import new_engine_identity
from cluster.wire.messages import (
    AbortRequests,
    AddRequest,
    ClusterView,
    EngineHello,
    FrontendEntry,
    FrontendToEngine,
    Utility,
)
from cluster.wire.sockets import (
    Context,
    Socket,
    close_watched,
    connect_dealer,
    connect_sub,
    receive_all,
    try_send,
    watch_disconnects,
)
from engine.arrivals import Arrived
from engine.io_thread import IoThread, ThreadFailed

POLL_MS = 100
REJOIN_SECONDS = 0.2
"""A frontend whose connection broke is greeted anew after so long."""


class FrontendJoined(NamedTuple):
    """A frontend is there; outputs for it go to this address."""

    frontend_index: int
    incarnation: int
    outputs_address: str


class FrontendGone(NamedTuple):
    """A frontend is dead, or has stopped reading: its requests are nobody's."""

    frontend_index: int
    incarnation: int


class Stop(NamedTuple):
    """Nothing follows."""


InputItem = (
    AddRequest | AbortRequests | Utility | FrontendJoined | FrontendGone | ThreadFailed | Stop
)


class FrontendLink(NamedTuple):
    """The way from one incarnation of a frontend to this engine."""

    entry: FrontendEntry
    dealer: Socket
    monitor: Socket
    """Tells when the connection breaks."""

    @property
    def frontend_index(self) -> int:
        """Whose link it is."""
        return self.entry.index

    @property
    def incarnation(self) -> int:
        """Of that frontend."""
        return self.entry.incarnation


def _arrived(message: AddRequest | AbortRequests) -> Arrived:
    sender = (message.frontend_index, message.frontend_incarnation, message.dispatch_seq)
    if isinstance(message, AbortRequests):
        return Arrived(*sender, context_tokens=0)
    context_tokens = max(1, len(message.prompt_token_ids) + len(message.output_token_ids))
    return Arrived(*sender, context_tokens, message.tenant)


class InputThread(IoThread):
    """Decodes what frontends send and queues it for the busy loop.

    Aborts are queued twice: in order with everything else, and on a fast lane that the busy loop
    reads between a forward pass and its update. Connects to frontends as the coordinator's view
    names them, and says hello to each. Who comes and who goes is queued with the rest, so that
    everybody hears of it in the order in which it happened.

    Where a connection breaks, messages may be lost, and neither side can tell which. So the
    frontend is taken for gone, and a new hello tells it to send everything again.
    """

    def __init__(
        self,
        context: Context,
        endpoints: Endpoints,
        hello: EngineHello,
        inbox: "queue.SimpleQueue[InputItem]",
        fast_lane: "queue.SimpleQueue[AbortRequests]",
        on_arrival: Callable[[Arrived], None],
        on_bad_frame: Callable[[], None],
    ) -> None:
        super().__init__("input-io", inbox.put)
        self._on_arrival = on_arrival
        self._context = context
        self._endpoints = endpoints
        self._hello = hello
        self._inbox = inbox
        self._fast_lane = fast_lane
        self._on_bad_frame = on_bad_frame
        self._links: dict[int, FrontendLink] = {}
        self._lost: dict[int, tuple[FrontendEntry, float]] = {}
        """Frontends whose connection broke, and when to greet them anew."""
        self._to_reconnect: queue.SimpleQueue[FrontendGone] = queue.SimpleQueue()
        self._complaints = RateLimited(logging.getLogger("engine.input"))
        self._encoder = Encoder()
        self._from_frontend: Decoder[FrontendToEngine] = Decoder(FrontendToEngine)
        self._from_coordinator: Decoder[ClusterView] = Decoder(ClusterView)
        self._is_stopping = threading.Event()
        self._poller = zmq.Poller()

    def stop(self) -> None:
        """End the thread at its next turn."""
        self._is_stopping.set()

    def reconnect(self, frontend: FrontendGone) -> None:
        """Drop a frontend that does not read, and greet it anew. For other threads."""
        self._to_reconnect.put(frontend)

    def serve(self) -> None:
        """Poll until `stop`."""
        view = connect_sub(self._context, self._endpoints.view, VIEW_TOPIC)
        self._poller.register(view, zmq.POLLIN)
        try:
            while not self._is_stopping.is_set():
                self._poller.poll(POLL_MS)
                self._drop_silent_readers()
                self._rejoin(time.monotonic())
                for link in list(self._links.values()):
                    for frames in receive_all(link.dealer):
                        self._take(link, frames)
                    if receive_all(link.monitor):
                        self._lose(link)
                views = receive_all(view)
                if views:
                    self._follow(views[-1])
        finally:
            for link in self._links.values():
                close_watched(link.dealer, link.monitor, linger_ms=0)
            view.close()

    def _take(self, link: FrontendLink, frames: list[bytes]) -> None:
        try:
            message = self._from_frontend.decode(frames)
            if message.frontend_index != link.frontend_index:
                raise DecodeError(
                    f"frontend {link.frontend_index} speaks as {message.frontend_index}"
                )
        except DecodeError as error:
            self._on_bad_frame()
            size = sum(map(len, frames))
            self._complaints.warning(
                f"frontend {link.frontend_index}", "dropped a bad frame of %d bytes from frontend %d: %s",
                size, link.frontend_index, error,
            )  # fmt: skip
            return
        if isinstance(message, AbortRequests):
            self._fast_lane.put(message)
        if not isinstance(message, Utility):
            # Before the busy loop can have it: it will say that it has taken in what was told.
            self._on_arrival(_arrived(message))
        self._inbox.put(message)

    def _follow(self, frames: list[bytes]) -> None:
        """Connect to frontends that are new in the view, and part from those that are gone.

        A frontend that the view does not name is kept: a new coordinator may not know it yet.
        """
        try:
            view = self._from_coordinator.decode(frames[1:])
        except DecodeError as error:
            self._on_bad_frame()
            self._complaints.warning("coordinator", "dropped a bad view: %s", error)
            return
        for entry in view.frontends:
            self._lost.pop(entry.index, None)
            link = self._links.get(entry.index)
            if link is not None and link.incarnation > entry.incarnation:
                continue
            is_same = link is not None and link.incarnation == entry.incarnation
            if link is not None and not (is_same and entry.alive):
                self._part(link)
            if entry.alive and entry.requests_address and not is_same:
                self._join(entry)

    def _join(self, entry: FrontendEntry) -> None:
        identity = new_engine_identity(self._hello.rank, self._hello.incarnation)
        try:
            dealer = connect_dealer(self._context, entry.requests_address, identity)
        except WireError as error:
            self._on_bad_frame()
            self._complaints.warning(
                f"address {entry.index}", "frontend %d: %s", entry.index, error
            )
            return
        link = FrontendLink(entry, dealer, watch_disconnects(dealer))
        self._links[entry.index] = link
        self._poller.register(link.dealer, zmq.POLLIN)
        self._poller.register(link.monitor, zmq.POLLIN)
        self._inbox.put(FrontendJoined(entry.index, entry.incarnation, entry.outputs_address))
        try_send(dealer, self._encoder.encode(self._hello))

    def _part(self, link: FrontendLink) -> None:
        self._poller.unregister(link.dealer)
        self._poller.unregister(link.monitor)
        close_watched(link.dealer, link.monitor, linger_ms=0)
        del self._links[link.frontend_index]
        self._inbox.put(FrontendGone(link.frontend_index, link.incarnation))

    def _drop_silent_readers(self) -> None:
        while not self._to_reconnect.empty():
            gone = self._to_reconnect.get()
            link = self._links.get(gone.frontend_index)
            if link is not None and link.incarnation == gone.incarnation:
                self._lose(link)

    def _lose(self, link: FrontendLink) -> None:
        """Part from a frontend that may well be alive; without a view saying so, it is tried soon."""
        self._part(link)
        self._lost[link.frontend_index] = (link.entry, time.monotonic() + REJOIN_SECONDS)

    def _rejoin(self, now: float) -> None:
        for index, (entry, due_at) in list(self._lost.items()):
            if now >= due_at:
                del self._lost[index]
                self._join(entry)
