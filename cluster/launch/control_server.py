"""The launcher's end of the control socket.

Verbs: `status`, `operation` (what is under way, and how the last one ended), `stop`, and with a JSON
object as their argument `drain`, `restart` and `scale` (`cluster.launch.operation`).
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from cluster.errors import ControlError, DecodeError, OperationConflict
from cluster.launch.operation import VERBS, Operation, read_operation
from cluster.launch.operation_book import Ticket
from cluster.launch.status import ClusterStatus
from cluster.telemetry.logs import RateLimited
from cluster.wire.codec import Decoder, Encoder
from cluster.wire.endpoints import Endpoints
from cluster.wire.messages import ControlReply, ControlRequest
from cluster.wire.sockets import Context, LoopReader, bind_router, try_send


class ControlServer:
    """Answers each request at once; what is no request is counted and dropped."""

    def __init__(
        self,
        context: Context,
        endpoints: Endpoints,
        status: Callable[[], ClusterStatus],
        stop: Callable[[bool], None],
        begin: Callable[[Operation], Ticket],
        on_bad_frame: Callable[[], None],
    ) -> None:
        """`stop(True)` ends the cluster without waiting for its requests; `begin` begins an operation."""
        self._router = bind_router(context, endpoints.control)
        self._status = status
        self._stop = stop
        self._begin = begin
        self._encoder = Encoder()
        self._decoder: Decoder[ControlRequest] = Decoder(ControlRequest)
        self._on_bad_frame = on_bad_frame
        self._complaints = RateLimited(logging.getLogger("launch"))
        self._reader = LoopReader(asyncio.get_running_loop(), self._router, self._take)

    def _take(self, frames: list[bytes]) -> None:
        identity, *message = frames
        try:
            request = self._decoder.decode(message)
        except DecodeError as error:
            self._on_bad_frame()
            self._complaints.warning("bad request", "dropped a bad control frame: %s", error)
            return
        try:
            reply = ControlReply(body=self._answer(request))
        except ControlError as error:
            is_conflict = isinstance(error, OperationConflict)
            reply = ControlReply(error=str(error), is_conflict=is_conflict)
        try_send(self._router, [identity, *self._encoder.encode(reply)])
        self._reader.poke()

    def _answer(self, request: ControlRequest) -> str:
        match request.verb, request.args:
            case "status", []:
                return msgspec.json.encode(self._status()).decode()
            case "operation", []:
                status = self._status()
                shown = {"operation": status.operation, "last_operation": status.last_operation}
                return msgspec.json.encode(shown).decode()
            case verb, [body] if verb in VERBS:
                return msgspec.json.encode(self._begin(read_operation(verb, body))).decode()
            case "stop", []:
                self._stop(False)
            case "stop", ["now"]:
                self._stop(True)
            case verb, args:
                raise ControlError(f"{' '.join([verb, *args])!r} is not a command of this cluster")
        return "{}"

    def close(self) -> None:
        """Release the socket."""
        self._reader.close()
        self._router.close(linger=200)
