"""When a request is complete, as far as token ids tell. Stop strings are the frontend's."""

from cluster.wire.sampling import FinishReason
from engine.request import Request, RequestStatus
from engine.scheduling.output import RunResult


def finish_if_complete(request: Request, max_model_len: int) -> bool:
    """Finish the request if its newest output token is its last one, and say whether it was.

    A stop token comes before the lengths: the token that both ends the text and fills it, ends it.
    Of an answer with a grammar it ends it before `min_tokens` too, since it is drawn then only where
    nothing else may follow. What pools has no output token, and ends with its vector.
    """
    sampling = request.sampling
    if sampling.pooling is not None:
        return False
    token_ids = request.token_ids
    num_output_tokens = len(token_ids) - request.num_prompt_tokens
    may_stop = num_output_tokens > sampling.min_tokens or (num_output_tokens and sampling.grammar)
    if may_stop and token_ids[-1] in sampling.stop_token_ids:
        request.stop_token_id = token_ids[-1]
        finish(request, FinishReason.STOP)
        return True
    if num_output_tokens >= sampling.max_tokens or len(token_ids) >= max_model_len:
        finish(request, FinishReason.LENGTH)
        return True
    return False


def take_answer(request: Request, result: RunResult, max_model_len: int) -> bool:
    """Add what came of the newest token, finish the request if that ends it, and say whether it did."""
    if request.sampling.pooling is not None:
        assert result.vector is not None, f"nothing was pooled for {request.request_id}"
        finish(request, FinishReason.STOP)
        return True
    assert result.token_id is not None, f"no token was sampled for {request.request_id}"
    request.token_ids.append(result.token_id)
    return finish_if_complete(request, max_model_len)


def finish(request: Request, reason: FinishReason, error: str = "") -> None:
    """Mark the request as ended; nothing more is computed for it."""
    request.status = RequestStatus.FINISHED
    request.finish_reason = reason
    request.error = error
