"""The blocks of a simulated KV cache: how many are held, and which prefixes they answer for."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence


class BlockCache:
    """Blocks that requests hold, and cached ones that nobody does, least recently used first.

    The rules are those of `engine.kv_cache.block_pool`, but blocks without a hash are only counted.
    So a run whose prompts share nothing costs no more than a few additions a request.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.num_used = 0
        """Blocks that requests hold."""
        self._holders: dict[bytes, int] = {}
        """How many requests hold each cached block."""
        self._free: OrderedDict[bytes, None] = OrderedDict()
        """Cached blocks that nobody holds; the first is evicted first."""
        self._stored: dict[bytes, None] = {}
        self._removed: dict[bytes, None] = {}

    @property
    def num_free(self) -> int:
        """Blocks that can be taken, cached ones included."""
        return self.num_blocks - self.num_used

    @property
    def num_free_cached(self) -> int:
        """Blocks that nobody holds but that still answer for a prefix."""
        return len(self._free)

    def find(self, hashes: Sequence[bytes], most: int) -> int:
        """How many of the first `most` hashes are cached, without a gap."""
        count = 0
        for block_hash in hashes[:most]:
            if block_hash not in self._holders:
                break
            count += 1
        return count

    def take(self, hits: Sequence[bytes], num_new: int, num_reserved: int = 0) -> bool:
        """Hold these cached blocks and `num_new` others; False, and nothing changed, if that would
        leave fewer than `num_reserved` free."""
        num_revived = sum(not self._holders[block_hash] for block_hash in hits)
        if num_new + num_revived + num_reserved > self.num_free:
            return False
        for block_hash in hits:
            self._holders[block_hash] += 1
            self._free.pop(block_hash, None)
        self.num_used += num_new + num_revived
        self._evict()
        return True

    def store(self, block_hash: bytes) -> bool:
        """Let a held block answer for its prefix; False if another block does already."""
        if block_hash in self._holders:
            return False
        self._holders[block_hash] = 1
        if block_hash in self._removed:
            del self._removed[block_hash]
        else:
            self._stored[block_hash] = None
        return True

    def release(self, hashes: Sequence[bytes], num_others: int) -> None:
        """Give back these cached blocks, the end of a prefix first, and others without a hash."""
        self.num_used -= num_others
        for block_hash in reversed(hashes):
            self._holders[block_hash] -= 1
            if not self._holders[block_hash]:
                self.num_used -= 1
                self._free[block_hash] = None

    def take_events(self) -> tuple[list[bytes], list[bytes]]:
        """The hashes (stored, removed) since the last call: the net change."""
        events = list(self._stored), list(self._removed)
        self._stored.clear()
        self._removed.clear()
        return events

    def _evict(self) -> None:
        for _ in range(self.num_used + len(self._free) - self.num_blocks):
            block_hash, _ = self._free.popitem(last=False)
            self._forget(block_hash)

    def _forget(self, block_hash: bytes) -> None:
        del self._holders[block_hash]
        if block_hash in self._stored:
            del self._stored[block_hash]
        else:
            self._removed[block_hash] = None

    def check_invariants(self, held: Iterable[Sequence[bytes]], num_others: int) -> None:
        """Raises AssertionError unless the books agree with what requests say that they hold."""
        holders = dict.fromkeys(self._free, 0)
        for hashes in held:
            for block_hash in hashes:
                holders[block_hash] = holders.get(block_hash, 0) + 1
        assert holders == self._holders, "holders of cached blocks differ"
        num_held = sum(count > 0 for count in holders.values())
        assert self.num_used == num_held + num_others, "blocks are lost"
        assert self.num_used + len(self._free) <= self.num_blocks, "more blocks than there are"
