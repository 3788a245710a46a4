"""How deep a JSON value is."""

from typing import Any

import pytest

from cluster.errors import InvalidRequest
from frontend.responses_api.nesting import MAX_LEVELS, check_nesting


def nested(num_levels: int) -> Any:
    value: Any = 1
    for level in range(num_levels):
        value = [value, 2] if level % 2 else {"a": 1, "b": value}
    return value


def test_as_many_levels_as_may_be_are_let_in() -> None:
    check_nesting(nested(MAX_LEVELS), "tools[0]")
    check_nesting("text", "tools[0]")


@pytest.mark.parametrize("num_levels", [MAX_LEVELS + 1, 100_000])
def test_one_more_is_refused_with_the_place_and_the_limit(num_levels: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_nesting(nested(num_levels), "tools[0]")
    assert caught.value.message == "tools[0] is nested deeper than 100 levels"
    assert caught.value.param == "tools[0]"
