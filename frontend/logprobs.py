"""Log probabilities as they come off the wire, position by position."""

from dataclasses import dataclass

from cluster.wire.messages import Blob, TokenLogprobs

LEAST_LOGPROB = -9999.0
"""What is sent for minus infinity, which JSON cannot say."""


@dataclass(frozen=True, slots=True)
class PositionLogprobs:
    """The token at one position, and the likeliest tokens there."""

    token_id: int
    logprob: float
    best: list[tuple[int, float]]
    """(token id, log probability), best first, as many as were asked for."""


def read_logprobs(block: TokenLogprobs) -> list[PositionLogprobs]:
    """The positions of a block, in order."""
    token_ids: list[int] = _bytes(block.token_ids).cast("i").tolist()
    logprobs = [_finite(value) for value in _bytes(block.logprobs).cast("f").tolist()]
    return [
        PositionLogprobs(
            token_id=token_ids[start],
            logprob=logprobs[start],
            best=[
                (token_ids[place], logprobs[place])
                for place in range(start + 1, start + block.width)
            ],
        )
        for start in range(0, len(token_ids), block.width)
    ]


def _bytes(blob: Blob) -> memoryview:
    return memoryview(blob.data).cast("B")


def _finite(value: float) -> float:
    # In this order NaN loses too.
    return max(LEAST_LOGPROB, value)
