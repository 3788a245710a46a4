"""A run of made-up tokens, to try a model with."""

from cluster.wire.sampling import SamplingParams
from engine.request import Request
from engine.scheduling.output import ScheduledRequest


def trial_run(num_tokens: int, block_size: int) -> ScheduledRequest:
    """The first `num_tokens` tokens of a request, all the same, in the first blocks of the cache."""
    request = Request(
        request_id="trial", frontend_index=0, attempt=0, token_ids=[0] * num_tokens,
        num_prompt_tokens=num_tokens, sampling=SamplingParams(), block_hashes=[],
    )  # fmt: skip
    return ScheduledRequest(request, 0, num_tokens, list(range(-(-num_tokens // block_size))))
