"""Wishes that together may leave no token to choose from: refused, since the answer would end in an error."""

from cluster.errors import InvalidRequest
from cluster.wire.sampling import SamplingParams


def refuse_dead_ends(sampling: SamplingParams, vocab_size: int) -> None:
    """Raises InvalidRequest naming a field without which there always is a token to choose."""
    for field in ("allowed_token_ids", "bad_words"):
        if sampling.grammar and getattr(sampling, field):
            raise InvalidRequest(
                f"{field} cannot be combined with a form that the answer must have, nor with tools "
                "that must be called",
                field,
            )
    banned = {word[-1] for word in sampling.bad_words}
    if sampling.min_tokens:
        banned.update(sampling.stop_token_ids)
    if banned.issuperset(sampling.allowed_token_ids or range(vocab_size)):
        field = "allowed_token_ids" if sampling.allowed_token_ids else "bad_words"
        raise InvalidRequest(
            f"{field} must leave a token that no bad word ends with, and that does not end the answer "
            "before min_tokens",
            field,
        )
