"""Bits to tokens."""

from hypothesis import given
from hypothesis import strategies as st

from engine.structured.mask import GrammarMask

SIZES = st.integers(min_value=1, max_value=100)


@given(st.data(), SIZES)
def test_allowed_tokens_come_once_each_in_order_from_any_start(
    data: st.DataObject, num_tokens: int
) -> None:
    allowed = data.draw(st.sets(st.integers(0, num_tokens - 1)))
    start = data.draw(st.integers(0, num_tokens - 1))
    bits = sum(1 << token_id for token_id in allowed)
    # As in the library, what is over is not zero: padding must not come out as a token.
    padding = ((1 << 64) - 1) << num_tokens
    mask = GrammarMask((bits | padding).to_bytes(32, "little"), num_tokens)
    expected = sorted(allowed, key=lambda token_id: (token_id < start, token_id))
    assert list(mask.allowed_from(start)) == expected
    assert [i for i in range(num_tokens) if mask.allows(i)] == sorted(allowed)
