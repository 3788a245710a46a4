"""All blocks of an engine's KV cache: who may take one, and which prefixes they answer for."""

from collections.abc import Iterable

from engine.kv_cache.block import FreeBlockQueue, KVCacheBlock


class BlockPool:
    """Blocks 0 … num_blocks − 1, each referenced by block tables or in the free queue.

    A free block may still be cached: it keeps its hash, and answers for its prefix, until somebody
    takes it. Every change of what is cached is recorded for `take_events`.
    """

    def __init__(self, num_blocks: int) -> None:
        assert num_blocks > 0, f"a KV cache of {num_blocks} blocks holds nothing"
        self.blocks = [KVCacheBlock(block_id) for block_id in range(num_blocks)]
        self._free = FreeBlockQueue()
        for block in self.blocks:
            self._free.append(block)
        self._cached: dict[bytes, KVCacheBlock] = {}
        self._num_free_cached = 0
        self._stored: dict[bytes, None] = {}
        self._removed: dict[bytes, None] = {}

    @property
    def num_blocks(self) -> int:
        """Size of the pool."""
        return len(self.blocks)

    @property
    def num_free_blocks(self) -> int:
        """Blocks that can be taken now, cached ones included."""
        return len(self._free)

    @property
    def num_free_cached_blocks(self) -> int:
        """Blocks that nobody holds but that still answer for a prefix."""
        return self._num_free_cached

    @property
    def cached_hashes(self) -> set[bytes]:
        """A copy of the hashes of all cached blocks."""
        return set(self._cached)

    def get_cached(self, block_hash: bytes) -> KVCacheBlock | None:
        """The block that answers for this hash, if one does."""
        return self._cached.get(block_hash)

    def allocate(self, count: int) -> list[KVCacheBlock]:
        """Take `count` blocks, evicting what they cached. There must be as many free."""
        taken = [self._free.pop_first() for _ in range(count)]
        for block in taken:
            if block.block_hash is not None:
                self._num_free_cached -= 1
                self._forget(block)
            block.reference_count = 1
        return taken

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Add a reference to each of these cached blocks: another table contains them now."""
        for block in blocks:
            if block.reference_count == 0:
                self._free.remove(block)
                self._num_free_cached -= 1
            block.reference_count += 1

    def free(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Drop a reference to each, in this order; the first one freed is the first one evicted.

        Blocks that cache nothing go to the front of the queue, since taking them costs nobody a hit.
        """
        for block in blocks:
            assert block.reference_count > 0, f"block {block.block_id} is freed twice"
            block.reference_count -= 1
            if block.reference_count > 0:
                continue
            if block.block_hash is None:
                self._free.prepend(block)
            else:
                self._free.append(block)
                self._num_free_cached += 1

    def cache(self, block: KVCacheBlock, block_hash: bytes) -> None:
        """Let this full, computed block answer for its prefix, unless another one does already.

        The second of two equal blocks is not merged with the first: its id is in a table that a
        step under way may be reading, and tables only ever grow. It stays without a hash, and is
        reused first when its request ends.
        """
        assert block.reference_count > 0, f"block {block.block_id} is cached while nobody holds it"
        assert block.block_hash is None, f"block {block.block_id} is cached twice"
        if block_hash in self._cached:
            return
        block.block_hash = block_hash
        self._cached[block_hash] = block
        if block_hash in self._removed:
            del self._removed[block_hash]
        else:
            self._stored[block_hash] = None

    def reset(self) -> bool:
        """Forget all that is cached; False, and nothing done, while any block is held."""
        if len(self._free) != len(self.blocks):
            return False
        for block in list(self._cached.values()):
            self._forget(block)
        self._num_free_cached = 0
        return True

    def take_events(self) -> tuple[list[bytes], list[bytes]]:
        """The hashes (stored, removed) since the last call: the net change, so in no order."""
        events = list(self._stored), list(self._removed)
        self._stored.clear()
        self._removed.clear()
        return events

    def _forget(self, block: KVCacheBlock) -> None:
        assert block.block_hash is not None
        block_hash, block.block_hash = block.block_hash, None
        del self._cached[block_hash]
        if block_hash in self._stored:
            del self._stored[block_hash]
        else:
            self._removed[block_hash] = None

    def check_invariants(self) -> None:
        """Raises AssertionError unless the free queue, the counts and the hash map agree."""
        free = list(self._free)
        assert len(free) == len(self._free) == len(set(map(id, free))), "the free queue is broken"
        assert all(block.reference_count == 0 for block in free), "a block that is held is free"
        held = sum(block.reference_count > 0 for block in self.blocks)
        assert held + len(free) == len(self.blocks), (
            f"{held} held and {len(free)} free blocks are not {len(self.blocks)}"
        )
        cached = {b.block_hash: b for b in self.blocks if b.block_hash is not None}
        assert cached == self._cached, "the hash map and the blocks' hashes differ"
        free_cached = sum(block.block_hash is not None for block in free)
        assert free_cached == self._num_free_cached, (
            f"{free_cached} free blocks are cached, {self._num_free_cached} are counted"
        )
