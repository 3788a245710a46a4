"""JSON bodies, right and wrong."""

import contextlib
import json
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import InvalidRequest
from frontend.openai.decoding import convert_body, decode_body
from frontend.openai.schemas import ChatBody, CompletionBody
from frontend.responses_api.schemas import ResponsesBody


def wrong(data: bytes, body_type: Any = ChatBody) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        decode_body(data, body_type)
    return caught.value


def test_a_field_of_a_wrong_type_is_named_with_what_was_expected() -> None:
    error = wrong(b'{"messages": [{"role": "user"}], "n": "2"}')
    assert error.param == "n"
    assert error.message == "n: expected `int | null`, got `str`"


def test_a_missing_field_is_named_with_its_path() -> None:
    assert wrong(b"{}").param == "messages"
    assert wrong(b'{"messages": [{}]}').param == "messages[0].role"


def test_what_is_no_object_has_no_field() -> None:
    assert wrong(b"5").param is None
    assert "not valid JSON" in wrong(b"{").message


def test_escapes_of_half_a_character_do_not_let_bad_json_through() -> None:
    assert "not valid JSON" in wrong(b'{"prompt": "\\ud83d", }', CompletionBody).message
    assert "not valid JSON" in wrong(b'{"prompt": "\\ud83d", "n": NaN}', CompletionBody).message


@given(st.text(st.characters(), max_size=30), st.booleans())
def test_any_text_arrives_with_only_lone_surrogates_replaced(text: str, is_ascii: bool) -> None:
    encoded = json.dumps({"prompt": text}, ensure_ascii=is_ascii).encode("utf-8", "replace")
    expected = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if is_ascii:
        assert decode_body(encoded, CompletionBody).prompt == expected
    else:
        assert isinstance(decode_body(encoded, CompletionBody).prompt, str)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_body_or_a_clear_error(data: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        decode_body(data, ChatBody)


class Marks(msgspec.Struct):
    """A body with keys that are more than texts."""

    by_number: dict[int, str] = {}
    lists: list[dict[Annotated[str, msgspec.Meta(max_length=3)], int]] = []


@pytest.mark.parametrize("body_type", [ChatBody, ResponsesBody])
def test_of_a_key_of_a_wrong_type_the_field_is_named(body_type: type[Any]) -> None:
    fields = {"messages": [{"role": "user"}], "input": "Hi", "logit_bias": {5: 1.0}}
    with pytest.raises(InvalidRequest) as caught:
        convert_body(fields, body_type)
    assert caught.value.param == "logit_bias"
    assert caught.value.message == "logit_bias: a key: expected `str`, got `int`"


def test_a_key_of_json_is_told_from_its_value() -> None:
    key = wrong(b'{"by_number": {"one": "a"}}', Marks)
    assert (key.param, key.message) == ("by_number", "by_number: a key: expected `int`, got `str`")
    value = wrong(b'{"by_number": {"1": 5}}', Marks)
    assert (value.param, value.message) == ("by_number", "by_number: expected `str`, got `int`")


def test_of_a_key_out_of_its_limits_the_object_is_named() -> None:
    error = wrong(b'{"lists": [{}, {"abc": 1, "abcd": 2}]}', Marks)
    assert error.param == "lists[1]"
    assert error.message == "lists[1]: a key must have at most 3 characters"
