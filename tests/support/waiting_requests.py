"""Requests as they stand in a frontend's line."""

from cluster.wire.sampling import SamplingParams
from frontend.in_flight import InFlight
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream


def waiting_request(
    name: str,
    tenant: str = "",
    prompt_tokens: int = 1,
    max_tokens: int = 16,
    priority: int = 0,
    pinned_rank: int | None = None,
    queued_at: float = 0.0,
) -> InFlight:
    """One that no engine has."""
    request = GenerationRequest(
        name, [1] * prompt_tokens, [], SamplingParams(max_tokens=max_tokens), arrived_at=queued_at,
        priority=priority, pinned_rank=pinned_rank, tenant=tenant,
    )  # fmt: skip
    return InFlight(RequestStream(request, lambda stream: None), queued_at=queued_at)
