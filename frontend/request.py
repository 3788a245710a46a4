"""What a route hands to the client: one choice of one prompt, validated and tokenized."""

from dataclasses import dataclass

from cluster.wire.sampling import SamplingParams


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One sequence to generate. A client's request with n > 1 or several prompts becomes several."""

    request_id: str
    prompt_token_ids: list[int]
    block_hashes: list[bytes]
    sampling: SamplingParams
    arrived_at: float
    """When the HTTP request arrived, on the monotonic clock."""
    priority: int = 0
    cache_salt: str = ""
    pinned_rank: int | None = None
    """Serve it on this engine and no other."""
    traceparent: str = ""
    session: str = ""
    """Requests of one session are likely to have a prefix in common."""
    tenant: str = ""
    """Who asks, as far as keys tell; tenants share the queue fairly."""
