"""The requests that wait in a simulated frontend, in production's own line."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from cluster.config import FrontendConfig
from cluster.wire.sampling import SamplingParams
from frontend.in_flight import InFlight
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream
from frontend.waiting_line import WaitingLine
from loadtests.simulation.request import ClientRequest


class HeldRequests:
    """`frontend.waiting_line`, told of simulated requests: what has begun first, then fair shares."""

    def __init__(self) -> None:
        self._line = WaitingLine(FrontendConfig())
        self._requests: dict[str, ClientRequest] = {}

    def __bool__(self) -> bool:
        return bool(self._requests)

    def join(self, request: ClientRequest) -> None:
        """Wait behind others of the same tenant."""
        self._requests[request.request_id] = request
        self._line.join(_in_flight(request))

    def join_first(self, requests: Sequence[ClientRequest]) -> None:
        """Wait before all others, in the order given: their engine has died."""
        self._requests.update((request.request_id, request) for request in requests)
        self._line.join_first([_in_flight(request) for request in requests])

    def serve(
        self, dispatch: Callable[[ClientRequest], bool], has_room: Callable[[], bool]
    ) -> None:
        """Offer those whose turn it is, until none is sent; those that are sent have left."""

        def offer(in_flight: InFlight) -> bool:
            request_id = in_flight.request.request_id
            is_sent = dispatch(self._requests[request_id])
            if is_sent:
                del self._requests[request_id]
            return is_sent

        self._line.serve(offer, has_room)


def _in_flight(request: ClientRequest) -> InFlight:
    generation = GenerationRequest(
        request.request_id,
        _tokens(request.prompt_tokens),
        [],
        SamplingParams(max_tokens=request.output_tokens),
        arrived_at=request.arrived_at,
        tenant=request.tenant,
    )
    stream = RequestStream(generation, lambda _: None)
    stream.num_output_tokens = request.num_outputs
    return InFlight(stream)


@lru_cache(maxsize=256)
def _tokens(number: int) -> list[int]:
    """Only how many there are is looked at."""
    return [0] * number
