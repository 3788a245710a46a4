"""Wishes that together may leave no token to choose from."""

from typing import Any

import pytest

from cluster.errors import InvalidRequest
from cluster.wire.sampling import SamplingParams
from frontend.dead_ends import refuse_dead_ends
from tests.support.frontend_app import ANSWER, engine_that_says, http_client

EOS = 2


@pytest.mark.parametrize(
    ("wishes", "param"),
    [
        ({"grammar": "g", "allowed_token_ids": [5]}, "allowed_token_ids"),
        ({"grammar": "g", "bad_words": [[5]]}, "bad_words"),
        ({"allowed_token_ids": [5], "bad_words": [[5]]}, "allowed_token_ids"),
        ({"allowed_token_ids": [5, 6], "bad_words": [[5, 5], [5, 6]]}, "allowed_token_ids"),
        ({"allowed_token_ids": [EOS], "min_tokens": 1}, "allowed_token_ids"),
        ({"allowed_token_ids": [EOS, 5], "min_tokens": 1, "bad_words": [[5]]}, "allowed_token_ids"),
        ({"bad_words": [[i] for i in range(10)]}, "bad_words"),
        ({"bad_words": [[i] for i in range(10) if i != EOS], "min_tokens": 1}, "bad_words"),
    ],
)
def test_what_may_leave_no_token_is_refused(wishes: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        refuse_dead_ends(SamplingParams(stop_token_ids=[EOS], **wishes), 10)
    assert caught.value.param == param
    assert caught.value.message.startswith(param)


@pytest.mark.parametrize(
    "wishes",
    [
        {},
        {"grammar": "g", "min_tokens": 5},
        {"allowed_token_ids": [5], "bad_words": [[6]]},
        {"allowed_token_ids": [EOS]},
        {"allowed_token_ids": [EOS, 5], "min_tokens": 5},
        {"bad_words": [[i] for i in range(9)]},
    ],
)
def test_what_always_leaves_one_is_taken(wishes: dict[str, Any]) -> None:
    refuse_dead_ends(SamplingParams(stop_token_ids=[EOS], **wishes), 10)


@pytest.mark.parametrize("stream", [False, True])
async def test_it_is_refused_before_an_engine_sees_it(stream: bool) -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        body = {"prompt": "Hi", "stream": stream, "allowed_token_ids": [2], "min_tokens": 1}
        answer = await client.post("/v1/completions", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "allowed_token_ids")
        assert not engine.submitted
