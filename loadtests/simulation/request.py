"""One request of a client, from its arrival to its end."""

from dataclasses import dataclass
from typing import Optional


@dataclass(slots=True, eq=False, kw_only=True)
class ClientRequest:
    """What a client asks, and when it got what. Times are seconds since the start of the run."""

    request_id: str
    arrived_at: float
    prompt_tokens: int
    output_tokens: int
    hashes: tuple[bytes, ...] = ()
    """Of the full blocks of prompt and answer; none for a prompt that shares nothing with others."""
    num_prompt_hashes: int = 0
    """How many of them are of the prompt alone: what a frontend knows."""
    tenant: str = ""
    session: str = ""
    think_seconds: float = 0.0
    """How long after its predecessor's end it comes, if it is a later turn of a session."""
    next_turn: Optional["ClientRequest"] = None

    num_outputs: int = 0
    """Tokens that have arrived at the frontend; kept up to date only where the request moves."""
    cached_tokens: int = 0
    """Prompt tokens that its first engine had in its prefix cache."""
    num_moves: int = 0
    first_token_at: float | None = None
    ended_at: float | None = None

    @property
    def prompt_hashes(self) -> tuple[bytes, ...]:
        """Of the prompt's full blocks."""
        return self.hashes[: self.num_prompt_hashes]

    @property
    def context_tokens(self) -> int:
        """What an engine has to compute or to have before the next token."""
        return self.prompt_tokens + self.num_outputs

    @property
    def ttft_seconds(self) -> float:
        """Time to the first token; the request has one."""
        assert self.first_token_at is not None, f"{self.request_id} has no token"
        return self.first_token_at - self.arrived_at

    @property
    def e2e_seconds(self) -> float:
        """Time to the last token; the request has ended."""
        assert self.ended_at is not None, f"{self.request_id} has not ended"
        return self.ended_at - self.arrived_at

    @property
    def tpot_seconds(self) -> float:
        """Mean time between its tokens; 0 where there is only one. The request has ended."""
        if self.output_tokens < 2:
            return 0.0
        return (self.e2e_seconds - self.ttft_seconds) / (self.output_tokens - 1)
