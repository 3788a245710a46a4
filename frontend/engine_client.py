"""What the text side asks of the client that reaches the engines."""

from collections.abc import Iterable
from typing import Protocol

from cluster.wire.messages import UtilityResult
from frontend.cluster_view import EngineCounts
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream


class EngineClient(Protocol):
    """Takes requests to engines. `frontend.client` is the one that speaks the wire."""

    def submit(self, request: GenerationRequest) -> RequestStream:
        """Send the request to an engine, or hold it until there is one.

        Raises NotServing if the server is leaving or the engine it is pinned to is not there,
        InvalidRequest if that engine does not exist, Overloaded if too much waits already, and
        Convicted if it has killed engines before.
        """
        ...

    def check_room(self, sketch: GenerationRequest) -> None:
        """Raises Overloaded, NotServing or InvalidRequest if `submit` would, whatever the prompt.

        A refusal must not cost a tokenization, nor wait for those of others.
        """
        ...

    @property
    def engine_counts(self) -> EngineCounts:
        """How many engines there are, and how many of them serve."""
        ...

    @property
    def are_all_engines_dead(self) -> bool:
        """Whether every engine has died and none is starting."""
        ...

    @property
    def is_draining(self) -> bool:
        """Whether the cluster is leaving and takes nothing new."""
        ...

    def max_request_tokens(self) -> int | None:
        """Tokens of one request that the smallest engine's KV cache can hold; None while unknown."""
        ...

    async def call_engines(self, method: str) -> dict[int, UtilityResult]:
        """The answers of all engines, by rank, to a call of this method."""
        ...

    def describe(self) -> dict[str, object]:
        """The cluster as this frontend sees it, in values that JSON can carry."""
        ...

    def decisions(self, most: int) -> list[dict[str, object]]:
        """So many of the last choices of an engine, the newest first, and why; in values for JSON."""
        ...


def submit_all(client: EngineClient, requests: Iterable[GenerationRequest]) -> list[RequestStream]:
    """Send every request to an engine. Raises what `EngineClient.submit` does, then sends none."""
    streams: list[RequestStream] = []
    try:
        for request in requests:
            stream = client.submit(request)
            streams.append(stream)
    except BaseException:
        for stream in streams:
            stream.end()
        raise
    return streams
