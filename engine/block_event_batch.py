"""What has changed in the prefix cache since it was last told, however many steps that took."""

from collections.abc import Iterable
from typing import NamedTuple

MOST_HASHES_OF_A_KIND = 1_000
"""In one message, stored and removed each: it is decoded between two outputs for clients."""


class BlockChanges(NamedTuple):
    """The content of one `BlockEvents`; no hash is in both lists."""

    stored: list[bytes]
    removed: list[bytes]
    cleared: bool
    """Everything that was told before is to be forgotten first."""


class BlockEventBatch:
    """Gathers changes from step to step; what enters and leaves between two messages is in none."""

    def __init__(self) -> None:
        self._stored: dict[bytes, None] = {}
        self._removed: dict[bytes, None] = {}
        self._starts_over = False

    def add(self, stored: Iterable[bytes], removed: Iterable[bytes]) -> None:
        """Take in what a step has changed, all in all; no hash is in both."""
        for block_hash in stored:
            if block_hash in self._removed:
                del self._removed[block_hash]
            else:
                self._stored[block_hash] = None
        for block_hash in removed:
            if block_hash in self._stored:
                del self._stored[block_hash]
            else:
                self._removed[block_hash] = None

    def start_over(self, cached: Iterable[bytes]) -> None:
        """Tell the whole cache next, as it is after all changes that were added."""
        self._stored = dict.fromkeys(cached)
        self._removed.clear()
        self._starts_over = True

    def take(self) -> list[BlockChanges]:
        """What is to be told now, in messages of a bounded size; nothing of it is told again."""
        stored, removed, starts_over = list(self._stored), list(self._removed), self._starts_over
        self._stored.clear()
        self._removed.clear()
        self._starts_over = False
        longest = max(len(stored), len(removed), starts_over)
        return [
            BlockChanges(
                stored[start : start + MOST_HASHES_OF_A_KIND],
                removed[start : start + MOST_HASHES_OF_A_KIND],
                cleared=starts_over and start == 0,
            )
            for start in range(0, longest, MOST_HASHES_OF_A_KIND)
        ]
