"""What of a request can be scheduled while a step is in flight, and nothing that comes of it is known."""

from cluster.wire.sampling import SamplingParams
from engine.request import Request


def draws_freely(sampling: SamplingParams, output_position: int) -> bool:
    """Whether the token at this position is drawn from the model's logits as they are.

    Such a token is drawn where the logits are. Any other takes the host: what it asks for is of many
    kinds, and most depend on the tokens before it.
    """
    return not (
        output_position < sampling.min_tokens
        or sampling.grammar
        or sampling.bad_words
        or sampling.logit_bias
        or sampling.allowed_token_ids
        or sampling.presence_penalty
        or sampling.frequency_penalty
        or sampling.repetition_penalty != 1.0
    )


def awaits_token(request: Request) -> bool:
    """Whether its token in flight has to be known before a run can begin with it."""
    return request.is_drawing and not draws_freely(
        request.sampling, request.next_position - request.num_prompt_tokens
    )


def ends_in_flight(request: Request, max_model_len: int) -> bool:
    """Whether what is in flight is the last of it, however it comes out."""
    if not request.is_drawing:
        return False
    num_tokens = request.next_position + 1
    return (
        request.sampling.pooling is not None
        or num_tokens - request.num_prompt_tokens >= request.sampling.max_tokens
        or num_tokens >= max_model_len
    )
