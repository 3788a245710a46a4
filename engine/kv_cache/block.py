"""One KV cache block, and the list of those that nobody holds."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class KVCacheBlock:
    """A page of the KV cache: who holds it, and which prefix it answers for, if any."""

    block_id: int
    reference_count: int = 0
    """Block tables that contain it. At 0 it is in the free queue."""
    block_hash: bytes | None = None
    """Chained hash of the tokens whose KV it holds, once it is full and computed."""
    previous: "KVCacheBlock | None" = None
    next: "KVCacheBlock | None" = None


class FreeBlockQueue:
    """The unreferenced blocks in the order in which they are taken: least recently used first.

    The links are in the blocks themselves, so that a prefix hit takes its block out of the middle
    in O(1) and nothing is allocated on the way (the idea is vLLM's).
    """

    def __init__(self) -> None:
        self._head = KVCacheBlock(-1)
        self._tail = KVCacheBlock(-1)
        self._head.next, self._tail.previous = self._tail, self._head
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[KVCacheBlock]:
        block = self._head.next
        while block is not None and block is not self._tail:
            yield block
            block = block.next

    def append(self, block: KVCacheBlock) -> None:
        """Put `block` last: it is taken when all others are."""
        assert self._tail.previous is not None
        self._insert(self._tail.previous, block, self._tail)

    def prepend(self, block: KVCacheBlock) -> None:
        """Put `block` first: it is taken next."""
        assert self._head.next is not None
        self._insert(self._head, block, self._head.next)

    def pop_first(self) -> KVCacheBlock:
        """Take the block that was used least recently. There must be one."""
        block = self._head.next
        assert block is not None
        assert block is not self._tail, "no block is free"
        self.remove(block)
        return block

    def remove(self, block: KVCacheBlock) -> None:
        """Take `block` out, wherever it is."""
        before, after = block.previous, block.next
        assert before is not None, f"block {block.block_id} is not free"
        assert after is not None
        before.next, after.previous = after, before
        block.previous = block.next = None
        self._length -= 1

    def _insert(self, before: KVCacheBlock, block: KVCacheBlock, after: KVCacheBlock) -> None:
        assert block.next is None, f"block {block.block_id} is free already"
        before.next = after.previous = block
        block.previous, block.next = before, after
        self._length += 1
