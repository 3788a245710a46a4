"""What ends a request, and which reason is given where there are two."""

from typing import Any

import pytest

from cluster.wire.sampling import FinishReason, SamplingParams
from engine.request import Request
from engine.scheduling.stop_condition import finish_if_complete

PROMPT = [5, 6, 7]
STOP = 2


def make_request(output: list[int], **sampling: Any) -> Request:
    return Request(
        request_id="a",
        frontend_index=0,
        attempt=0,
        token_ids=PROMPT + output,
        num_prompt_tokens=len(PROMPT),
        sampling=SamplingParams(**sampling),
        block_hashes=[],
    )


@pytest.mark.parametrize(
    ("output", "sampling", "reason"),
    [
        ([1], {}, None),
        ([1, STOP], {}, None),
        ([1, STOP], {"stop_token_ids": [9, STOP]}, FinishReason.STOP),
        ([STOP, 1], {"stop_token_ids": [STOP]}, None),
        ([1, STOP], {"stop_token_ids": [STOP], "min_tokens": 2}, None),
        ([1, STOP], {"stop_token_ids": [STOP], "min_tokens": 1}, FinishReason.STOP),
        ([1, 1], {"max_tokens": 2}, FinishReason.LENGTH),
        ([1, STOP], {"max_tokens": 2, "stop_token_ids": [STOP]}, FinishReason.STOP),
        ([1, STOP], {"max_tokens": 2, "min_tokens": 2, "stop_token_ids": [STOP]}, FinishReason.LENGTH),
        ([1, STOP], {"stop_token_ids": [STOP], "min_tokens": 9, "grammar": "any"}, FinishReason.STOP),
        ([1] * 7, {}, FinishReason.LENGTH),  # max_model_len
        ([1] * 6, {}, None),
    ],
)  # fmt: skip
def test_stop_tokens_come_before_lengths(
    output: list[int], sampling: dict[str, Any], reason: FinishReason | None
) -> None:
    request = make_request(output, **sampling)
    assert finish_if_complete(request, max_model_len=10) is (reason is not None)
    assert request.finish_reason is reason
    assert request.stop_token_id == (STOP if reason is FinishReason.STOP else None)


def test_a_stop_token_in_the_prompt_ends_nothing() -> None:
    for grammar in ("", "any"):
        request = make_request([], stop_token_ids=[PROMPT[-1]], grammar=grammar)
        assert not finish_if_complete(request, max_model_len=10)
