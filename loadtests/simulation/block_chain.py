"""Hashes of made-up prompts: each block has a number of its own, and no text."""

from itertools import count

HASH_BYTES = 16


class BlockChains:
    """Gives out hashes that nobody else has, for blocks that are equal wherever they are shared."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def new(self, num_blocks: int) -> tuple[bytes, ...]:
        """The hashes of so many blocks in a row."""
        return tuple(next(self._numbers).to_bytes(HASH_BYTES, "little") for _ in range(num_blocks))
