"""Which requests can be served at all: the engine's own door, whatever the frontend let through."""

import math
from dataclasses import dataclass

from cluster.telemetry.flight_recorder import LONGEST_REQUEST_ID_BYTES
from engine.request import Request


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """What this engine can hold, and the requests that would go beyond it."""

    num_blocks: int
    block_size: int
    max_model_len: int
    vocab_size: int

    def refusal(self, request: Request) -> str:
        """Why the request can never be served here, naming the field and the limit; else ""."""
        return (
            self._refuse_id(request)
            or self._refuse_tokens(request)
            or self._refuse_length(request)
            or self._refuse_rest(request)
        )

    def _refuse_id(self, request: Request) -> str:
        num_bytes = len(request.request_id.encode())
        if num_bytes > LONGEST_REQUEST_ID_BYTES:
            return f"request_id has {num_bytes} bytes, and at most {LONGEST_REQUEST_ID_BYTES} fit"
        return ""

    def _refuse_tokens(self, request: Request) -> str:
        if request.num_prompt_tokens == 0:
            return "prompt_token_ids is empty"
        lowest, highest = min(request.token_ids), max(request.token_ids)
        if lowest < 0 or highest >= self.vocab_size:
            wrong = lowest if lowest < 0 else highest
            return f"token id {wrong} is not in the vocabulary of {self.vocab_size} tokens"
        return ""

    def _refuse_length(self, request: Request) -> str:
        if request.sampling.pooling is not None:
            return self._refuse_length_of_pooled(request)
        if request.num_prompt_tokens >= self.max_model_len:
            return (
                f"the prompt of {request.num_prompt_tokens} tokens leaves no room for an answer: "
                f"max_model_len is {self.max_model_len}"
            )
        wanted = request.num_prompt_tokens + request.sampling.max_tokens
        num_tokens = min(wanted, self.max_model_len)
        if -(-num_tokens // self.block_size) > self.num_blocks:
            return (
                f"prompt and max_tokens are {num_tokens} tokens together, "
                f"and the KV cache holds {self.num_blocks * self.block_size}"
            )
        return ""

    def _refuse_length_of_pooled(self, request: Request) -> str:
        limit = min(self.max_model_len, self.num_blocks * self.block_size)
        if request.num_prompt_tokens > limit:
            return f"the prompt has {request.num_prompt_tokens} tokens, and at most {limit} fit"
        if request.num_output_tokens:
            return "output_token_ids are there, and what pools has none"
        return ""

    def _refuse_rest(self, request: Request) -> str:
        num_full_blocks = request.num_prompt_tokens // self.block_size
        if len(request.block_hashes) > num_full_blocks:
            return (
                f"{len(request.block_hashes)} block_hashes for a prompt with {num_full_blocks} full "
                f"blocks of {self.block_size} tokens"
            )
        for name in ("logprobs", "prompt_logprobs"):
            num_alternatives = getattr(request.sampling, name)
            if num_alternatives is not None and num_alternatives < 0:
                return f"{name} is {num_alternatives}, and there cannot be fewer than 0"
        if not math.isfinite(request.arrived_at):
            return "age_seconds is not a number of seconds"
        return ""
