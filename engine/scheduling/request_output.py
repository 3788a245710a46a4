"""What a frontend is told about one request after a step."""

from cluster.wire.messages import EngineCoreOutput, TokenLogprobs
from engine.request import Request
from engine.scheduling.output import RunResult, join_logprobs


def engine_output(
    request: Request, result: RunResult | None = None, is_first: bool = False
) -> EngineCoreOutput:
    """The output with all tokens that the frontend does not have yet, and the end, if it is that."""
    first, token_ids = request.num_reported_tokens, request.token_ids
    request.num_reported_tokens = len(token_ids)
    return EngineCoreOutput(
        request_id=request.request_id,
        attempt=request.attempt,
        first_output_index=first - request.num_prompt_tokens,
        token_ids=token_ids[first:],
        finish_reason=request.finish_reason,
        stop_token_id=request.stop_token_id,
        cached_tokens=request.num_cached_tokens if is_first else None,
        logprobs=result.logprobs if result is not None else None,
        prompt_logprobs=_take_prompt_logprobs(request) if is_first else None,
        error=request.error,
        vector=result.vector if result is not None else None,
    )


def keep_prompt_logprobs(request: Request, result: RunResult) -> None:
    """Hold back a chunk's prompt logprobs until the first token, unless the client has them."""
    if result.prompt_logprobs is not None and not request.prompt_logprobs_sent:
        request.prompt_logprobs.append(result.prompt_logprobs)


def _take_prompt_logprobs(request: Request) -> TokenLogprobs | None:
    pieces, request.prompt_logprobs = request.prompt_logprobs, []
    if not pieces:
        return None
    request.prompt_logprobs_sent = True
    return join_logprobs(pieces)
