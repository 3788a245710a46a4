"""How many tokens a request may generate, to the token."""

import pytest

from cluster.errors import ContextLengthExceeded
from frontend.context_limit import ContextLimit

LIMIT = ContextLimit.of(100, None)


def test_what_just_fits_is_served_and_one_more_is_not() -> None:
    assert LIMIT.max_tokens(60, 40, None, "prompt") == 40
    with pytest.raises(ContextLengthExceeded, match=r"requested 101 tokens \(60 in the prompt, 41"):
        LIMIT.max_tokens(60, 41, None, "prompt")


def test_a_prompt_must_leave_room_for_one_token() -> None:
    assert LIMIT.max_tokens(99, None, None, "messages") == 1
    with pytest.raises(ContextLengthExceeded, match="messages resulted in 100 tokens") as caught:
        LIMIT.max_tokens(100, None, 16, "messages")
    assert caught.value.param == "messages"


def test_without_a_wish_it_is_the_default_or_all_the_room() -> None:
    assert LIMIT.max_tokens(60, None, 16, "prompt") == 16
    assert LIMIT.max_tokens(90, None, 16, "prompt") == 10
    assert LIMIT.max_tokens(60, None, None, "prompt") == 40


def test_the_smaller_of_model_and_cache_limits_and_is_named() -> None:
    assert ContextLimit.of(100, 200) == LIMIT
    assert ContextLimit.of(100, 100) == LIMIT
    with pytest.raises(ContextLengthExceeded, match="KV cache of this server holds at most 50"):
        ContextLimit.of(100, 50).max_tokens(60, None, None, "prompt")
