"""Which blocks hold which request's KV, and which of them a new request can share."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cluster.wire.block_hash import block_hash, chain_root
from engine.kv_cache.block import KVCacheBlock
from engine.kv_cache.block_pool import BlockPool
from engine.request import Request


@dataclass(slots=True)
class BlockTable:
    """The blocks of one request in order of position. Only grows, so a step may keep reading it."""

    block_ids: list[int] = field(default_factory=list)
    num_settled_blocks: int = 0
    """Leading blocks that came from the cache or have been offered to it."""


class KVCacheManager:
    """Block tables over one `BlockPool`, with prefixes shared between requests.

    A block is offered to the cache when it is full and its KV is computed, never before: a hit can
    be read by the very next step.
    """

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_caching: bool) -> None:
        self.block_size = block_size
        self.pool = BlockPool(num_blocks)
        self._enable_prefix_caching = enable_prefix_caching
        self._tables: dict[str, BlockTable] = {}

    @property
    def num_used_blocks(self) -> int:
        """Blocks that live requests hold; what is merely cached can be taken and is not used."""
        return self.pool.num_blocks - self.pool.num_free_blocks

    @property
    def request_ids(self) -> set[str]:
        """The requests that hold blocks."""
        return set(self._tables)

    def blocks_for(self, num_tokens: int) -> int:
        """How many blocks hold the KV of `num_tokens` tokens."""
        return -(-num_tokens // self.block_size)

    def block_table(self, request: Request) -> list[int]:
        """The request's block ids; the same list grows as long as the request holds its blocks."""
        return self._tables[request.request_id].block_ids

    def find_prefix(self, request: Request) -> list[KVCacheBlock]:
        """The cached blocks with which the request's tokens begin.

        All but the last token at most: the next one is drawn from the last one's logits.
        """
        prefix: list[KVCacheBlock] = []
        if not self._enable_prefix_caching:
            return prefix
        for index in range((request.num_tokens - 1) // self.block_size):
            block = self.pool.get_cached(self._hash_of_block(request, index))
            if block is None:
                break
            prefix.append(block)
        return prefix

    def allocate_slots(
        self,
        request: Request,
        num_tokens: int,
        prefix: Sequence[KVCacheBlock] = (),
        reserve_blocks: int = 0,
    ) -> bool:
        """Let the request's table hold `num_tokens` tokens, starting with `prefix` if it is new.

        False, and nothing changed, if that would leave fewer than `reserve_blocks` free blocks.
        """
        table = self._tables.get(request.request_id)
        num_held = len(prefix) if table is None else len(table.block_ids)
        num_new = self.blocks_for(num_tokens) - num_held
        if table is not None and num_new <= 0:
            return True
        num_revived = sum(block.reference_count == 0 for block in prefix)
        if num_new + num_revived + reserve_blocks > self.pool.num_free_blocks:
            return False
        if table is None:
            self.pool.touch(prefix)
            table = BlockTable([block.block_id for block in prefix], len(prefix))
            self._tables[request.request_id] = table
        table.block_ids += [block.block_id for block in self.pool.allocate(num_new)]
        return True

    def table_with_slot(self, request: Request) -> list[int] | None:
        """The request's block ids, with a slot for its next token; None if there is no block for it.

        Of most tokens it is there already.
        """
        block_ids, position = self._tables[request.request_id].block_ids, request.next_position
        is_full = position == self.block_size * len(block_ids)
        if is_full and not self.allocate_slots(request, position + 1):
            return None
        return block_ids

    def has_slot_for_each(self, requests: Iterable[Request]) -> bool:
        """Whether every one of these requests could have a slot for one more token."""
        num_wanted = sum(
            request.next_position == self.block_size * len(self.block_table(request))
            for request in requests
        )
        return num_wanted <= self.pool.num_free_blocks

    def cache_computed_blocks(self, request: Request) -> None:
        """Offer the blocks that the request's computed tokens have filled, output tokens too."""
        table = self._tables[request.request_id]
        num_full = request.num_computed_tokens // self.block_size
        if num_full <= table.num_settled_blocks or not self._enable_prefix_caching:
            return
        for index in range(table.num_settled_blocks, num_full):
            block = self.pool.blocks[table.block_ids[index]]
            self.pool.cache(block, self._hash_of_block(request, index))
        table.num_settled_blocks = num_full

    def free(self, request: Request) -> None:
        """Give back the request's blocks, last ones first: the end of a prefix is evicted first."""
        table = self._tables.pop(request.request_id)
        self.pool.free(self.pool.blocks[block_id] for block_id in reversed(table.block_ids))

    def _hash_of_block(self, request: Request, index: int) -> bytes:
        """The hash of the request's full block `index`; the frontend's chain is carried on."""
        hashes = request.block_hashes
        while len(hashes) <= index:
            start = len(hashes) * self.block_size
            parent = hashes[-1] if hashes else chain_root(request.cache_salt)
            hashes.append(block_hash(parent, request.token_ids[start : start + self.block_size]))
        return hashes[index]

    def check_invariants(self) -> None:
        """Raises AssertionError unless every block is accounted for, exactly once."""
        self.pool.check_invariants()
        references = Counter(i for table in self._tables.values() for i in table.block_ids)
        for block in self.pool.blocks:
            assert block.reference_count == references[block.block_id], (
                f"block {block.block_id} counts {block.reference_count} references, "
                f"{references[block.block_id]} tables contain it"
            )
        for request_id, table in self._tables.items():
            assert len(set(table.block_ids)) == len(table.block_ids), (
                f"{request_id} has a block twice: {table.block_ids}"
            )
