"""Arguments that were cut off."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jiter import from_json

from frontend.anthropic.partial_input import call_input

values = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text('ab"\\{}[],:é', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab,}"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text('ab"\\'), values, max_size=4)


@given(objects)
def test_whole_arguments_are_read_as_they_are(value: dict[str, Any]) -> None:
    assert call_input(json.dumps(value)) == value


@given(objects, st.data())
def test_cut_arguments_are_an_object_whose_members_came(
    value: dict[str, Any], data: st.DataObject
) -> None:
    whole = json.dumps(value)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    assert set(call_input(cut)) <= set(value)


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "b": "x', '{"a": [1, {"b": 2', '{"a": {"b": "c"}, "d"', '{"a": true, "b": fal', "{"],
)
def test_the_official_client_reads_the_same_in_a_stream(text: str) -> None:
    assert call_input(text) == from_json(text.encode(), partial_mode=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("no", {}),
        ("[1]", {}),
        ("{]", {}),
        ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
        ("[" * 100_000, {}),
    ],
)
def test_what_is_no_object_is_empty_and_half_a_character_is_replaced(
    text: str, found: dict[str, Any]
) -> None:
    assert call_input(text) == found
