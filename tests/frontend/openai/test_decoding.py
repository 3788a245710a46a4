"""JSON bodies, right and wrong."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import InvalidRequest
from frontend.openai.decoding import decode_body
from frontend.openai.schemas import ChatBody, CompletionBody


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
