"""Large bodies mean what they would mean if they were decoded at once, and do not hold up others."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import InvalidRequest
from frontend.embeddings.schemas import EmbeddingBody
from frontend.openai import decoding_pieces
from frontend.openai.decoding import decode_body
from frontend.openai.decoding_pieces import decode_large_body
from frontend.openai.schemas import ChatBody, CompletionBody, DetokenizeBody

BODY_TYPES: dict[str, type[msgspec.Struct]] = {
    "prompt": CompletionBody,
    "input": EmbeddingBody,
    "tokens": DetokenizeBody,
}
SPACES = st.sampled_from(["", " ", "\n  "])


@pytest.fixture(autouse=True, scope="module")
def _small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding_pieces, "PIECE_BYTES", 8)
        yield


def meaning(decode: Any, data: bytes, body_type: type[msgspec.Struct]) -> Any:
    try:
        return decode(data, body_type)
    except InvalidRequest as error:
        return error.message, error.param


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, type[msgspec.Struct]]:
    """A body with a list in it, most of them right."""
    name = draw(st.sampled_from(sorted(BODY_TYPES)))
    number: st.SearchStrategy[Any] = st.integers(-1, 10**6) | st.integers(0, 300)
    odd: st.SearchStrategy[Any] = st.sampled_from(["1,2],[3", None, 1.5, {}, [[]]])
    items = st.one_of(number, st.lists(number, max_size=9), st.text("[], 1", max_size=9), odd)
    kind = draw(st.sampled_from([number, st.lists(number, min_size=1, max_size=9), items]))
    fields = {"n": 1, name: draw(st.lists(kind, max_size=20)), "model": draw(st.text(max_size=9))}
    space, comma = draw(SPACES), draw(SPACES) + "," + draw(SPACES)
    text = space + json.dumps(fields, separators=(comma, ":")) + space
    cut = draw(st.one_of(st.none(), st.integers(0, len(text))))
    if cut is not None:
        text = text[:cut] + text[cut + 1 :]
    return text.encode(), BODY_TYPES[name]


@given(bodies())
def test_any_body_means_the_same_in_pieces_as_at_once(
    made: tuple[bytes, type[msgspec.Struct]],
) -> None:
    data, body_type = made
    assert meaning(decode_large_body, data, body_type) == meaning(decode_body, data, body_type)


@pytest.mark.parametrize(
    "prompt", ["1," * 20 + "2", "[1,2,3]," * 9 + "[4]", " [" + "1, " * 20 + "2 ], [ 3 ] "]
)
def test_lists_of_token_ids_are_not_decoded_at_once(
    prompt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding_pieces, "decode_body", None)
    data = b'{"n": 2, "prompt": [%b]}' % prompt.encode()
    body = decode_large_body(bytearray(data), CompletionBody)
    assert body.prompt == json.loads(data)["prompt"]
    assert body.n == 2


def test_a_body_without_such_a_list_is_taken_as_it_is() -> None:
    data = json.dumps({"messages": [{"role": "user", "content": "word " * 100}]}).encode()
    assert decode_large_body(data, ChatBody) == decode_body(data, ChatBody)
    assert decode_large_body(data, dict[str, Any]) == json.loads(data)
