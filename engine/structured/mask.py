"""Which tokens a grammar allows next."""

from collections.abc import Iterator

_BITS = 8


class GrammarMask:
    """One bit a token, the lowest bit of a byte first."""

    __slots__ = ("bits", "num_tokens")

    def __init__(self, bits: bytes, num_tokens: int) -> None:
        self.bits = bits
        self.num_tokens = num_tokens

    def allows(self, token_id: int) -> bool:
        """Whether this token may come next."""
        return bool(self.bits[token_id // _BITS] >> token_id % _BITS & 1)

    def allowed_from(self, start: int) -> Iterator[int]:
        """The allowed tokens, each once: from `start` to the last, then from the first on."""
        yield from self._allowed(start, self.num_tokens)
        yield from self._allowed(0, start)

    def _allowed(self, start: int, end: int) -> Iterator[int]:
        token_id = start
        while token_id < end:
            if token_id % _BITS == 0 and not self.bits[token_id // _BITS]:
                token_id += _BITS  # masks are mostly zeros
            else:
                if self.allows(token_id):
                    yield token_id
                token_id += 1
