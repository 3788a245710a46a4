"""A frontend's sockets: requests out, outputs, views and connection events in."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

import zmq
from zmq.utils.monitor import parse_monitor_message

from cluster.errors import DecodeError, ProtocolMismatch
from cluster.telemetry.logs import RateLimited
from cluster.wire.codec import Decoder, Encoder, check_protocol_version
from cluster.wire.endpoints import BLOCKS_TOPIC, VIEW_TOPIC, Endpoints
from cluster.wire.ids import is_identity_of
from cluster.wire.messages import (
    PROTOCOL_VERSION,
    BlockEvents,
    ClusterView,
    Conviction,
    EngineCoreOutputs,
    EngineGoodbye,
    EngineHello,
    EngineToFrontend,
    FrontendHello,
    FrontendReport,
    Message,
    UtilityResult,
)
from cluster.wire.sockets import (
    Context,
    LoopReader,
    bind_pull,
    bind_router,
    connect_reports,
    connect_sub,
    try_send,
)


class LinkListener(Protocol):
    """Who hears what comes in, on the event loop, one message at a time."""

    def on_hello(self, hello: EngineHello) -> None:
        """An engine has connected, under its own name and in our version."""
        ...

    def on_outputs(self, outputs: EngineCoreOutputs) -> None:
        """An engine has computed something."""
        ...

    def on_goodbye(self, goodbye: EngineGoodbye) -> None:
        """An engine has ended, by its own word."""
        ...

    def on_utility_result(self, result: UtilityResult) -> None:
        """An engine has answered a call."""
        ...

    def on_view(self, view: ClusterView) -> None:
        """The coordinator tells how the cluster is."""
        ...

    def on_block_events(self, events: BlockEvents) -> None:
        """An engine tells, by the coordinator, what has entered and left its prefix cache."""
        ...

    def on_connection_closed(self) -> None:
        """Some engine's connection has closed; ZeroMQ does not say whose."""
        ...


class ClusterLink:
    """Decodes, checks, and hands on; whatever is no message is counted and dropped."""

    def __init__(
        self,
        context: Context,
        endpoints: Endpoints,
        frontend: tuple[int, int],
        listener: LinkListener,
        on_bad_frame: Callable[[], None],
    ) -> None:
        """Must be made on the running event loop that the listener lives on."""
        own = endpoints.frontend(*frontend)
        self._frontend = frontend
        self._listener = listener
        self._on_bad_frame = on_bad_frame
        self._complaints = RateLimited(logging.getLogger("frontend.link"))
        self._identities: dict[tuple[int, int], bytes] = {}
        self._encoder = Encoder()
        self._from_engines: Decoder[EngineToFrontend] = Decoder(EngineToFrontend)
        self._from_coordinator: Decoder[ClusterView] = Decoder(ClusterView)
        self._block_events: Decoder[BlockEvents] = Decoder(BlockEvents)
        self._hello = FrontendHello(PROTOCOL_VERSION, *frontend, own.requests, own.outputs)
        self._router = bind_router(context, own.requests)
        self._monitor = self._router.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._outputs = bind_pull(context, own.outputs)
        self._view = connect_sub(context, endpoints.view, VIEW_TOPIC)
        # A socket of its own: a flood of them is not to hold up, or push out, the news of a death.
        self._blocks = connect_sub(context, endpoints.view, BLOCKS_TOPIC)
        self._reports = connect_reports(context, endpoints.reports)
        loop = asyncio.get_running_loop()
        self._router_reader = LoopReader(loop, self._router, self._on_router)
        self._readers = [
            self._router_reader,
            LoopReader(loop, self._outputs, self._on_outputs),
            LoopReader(loop, self._view, self._on_view),
            LoopReader(loop, self._blocks, self._on_blocks),
            LoopReader(loop, self._monitor, self._on_monitor),
        ]

    def close(self) -> None:
        """Release the sockets."""
        for reader in self._readers:
            reader.close()
        self._router.disable_monitor()
        for socket in (
            self._router, self._outputs, self._view, self._blocks, self._reports, self._monitor,
        ):  # fmt: skip
            socket.close()

    def send(self, rank: int, incarnation: int, message: Message) -> bool:
        """Send to an engine without waiting; False if it is not there or takes nothing more."""
        identity = self._identities.get((rank, incarnation))
        if identity is None:
            return False
        was_taken = try_send(self._router, [identity, *self._encoder.encode(message)])
        self._router_reader.poke()
        return was_taken

    def announce(self, in_flight: int, queued: int, convictions: list[Conviction]) -> None:
        """Tell the coordinator that this frontend is there, how busy, and whom it has convicted."""
        report = FrontendReport(*self._frontend, in_flight, queued, convictions)
        for message in (self._hello, report):
            try_send(self._reports, self._encoder.encode(message))

    def _on_router(self, frames: list[bytes]) -> None:
        identity, *rest = frames
        try:
            hello = self._from_engines.decode(rest)
            if not isinstance(hello, EngineHello):
                raise DecodeError(f"{type(hello).__name__} does not come this way")
            if not is_identity_of(identity, hello.rank, hello.incarnation):
                raise DecodeError(f"engine {hello.rank}.{hello.incarnation} under another's name")
            check_protocol_version(hello.protocol_version, f"engine {hello.rank}")
        except (DecodeError, ProtocolMismatch) as error:
            self._complain(frames, error)
            return
        self._remember(hello.rank, hello.incarnation, identity)
        self._listener.on_hello(hello)

    def _remember(self, rank: int, incarnation: int, identity: bytes) -> None:
        """Each connection of an engine has a name of its own; the last one it greeted from counts."""
        for known in [
            key for key in self._identities if key[0] == rank and key[1] < incarnation - 1
        ]:
            del self._identities[known]
        self._identities[rank, incarnation] = identity

    def _on_outputs(self, frames: list[bytes]) -> None:
        try:
            message = self._from_engines.decode(frames)
            if isinstance(message, EngineHello):
                raise DecodeError("EngineHello does not come this way")
        except DecodeError as error:
            self._complain(frames, error)
            return
        match message:
            case EngineCoreOutputs():
                self._listener.on_outputs(message)
            case EngineGoodbye():
                self._listener.on_goodbye(message)
            case UtilityResult():
                self._listener.on_utility_result(message)

    def _on_view(self, frames: list[bytes]) -> None:
        try:
            view = self._from_coordinator.decode(frames[1:])
        except DecodeError as error:
            self._complain(frames, error)
            return
        self._listener.on_view(view)

    def _on_blocks(self, frames: list[bytes]) -> None:
        try:
            events = self._block_events.decode(frames[1:])
        except DecodeError as error:
            self._complain(frames, error)
            return
        self._listener.on_block_events(events)

    def _on_monitor(self, frames: list[bytes]) -> None:
        if parse_monitor_message(frames)["event"] == zmq.EVENT_DISCONNECTED:
            self._listener.on_connection_closed()

    def _complain(self, frames: list[bytes], error: Exception) -> None:
        self._on_bad_frame()
        size = sum(map(len, frames))
        self._complaints.warning("bad frame", "dropped a bad frame of %d bytes: %s", size, error)
