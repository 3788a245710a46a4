"""What the text side asks of the client that reaches the engines."""

from typing import Protocol

from cluster.wire.messages import UtilityResult
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream


class EngineClient(Protocol):
    """Takes requests to engines. `frontend.client` is the one that speaks the wire."""

    def submit(self, request: GenerationRequest) -> RequestStream:
        """Send the request to an engine, or hold it until there is one.

        Raises NotServing if it can be neither sent nor held, and InvalidRequest if it is pinned to
        an engine that does not exist.
        """
        ...

    @property
    def num_ready_engines(self) -> int:
        """Engines that would take a request now."""
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
