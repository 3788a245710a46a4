"""Who may take a block, what it still answers for, and what the world is told of it."""

from collections.abc import Iterator

import pytest

from engine.kv_cache.block import KVCacheBlock
from engine.kv_cache.block_pool import BlockPool


@pytest.fixture
def pool() -> Iterator[BlockPool]:
    pool = BlockPool(4)
    yield pool
    pool.check_invariants()


def cache(pool: BlockPool, *hashes: bytes) -> list[KVCacheBlock]:
    """Take blocks and let them answer for these hashes."""
    blocks = pool.allocate(len(hashes))
    for block, block_hash in zip(blocks, hashes, strict=True):
        pool.cache(block, block_hash)
    return blocks


def ids(blocks: list[KVCacheBlock]) -> list[int]:
    return [block.block_id for block in blocks]


def test_every_block_can_be_taken(pool: BlockPool) -> None:
    assert ids(pool.allocate(4)) == [0, 1, 2, 3]
    assert pool.num_free_blocks == 0


def test_a_freed_block_still_answers_for_its_prefix(pool: BlockPool) -> None:
    (block,) = cache(pool, b"a")
    pool.free([block])
    assert pool.get_cached(b"a") is block
    assert (pool.num_free_blocks, pool.num_free_cached_blocks) == (4, 1)


def test_uncached_blocks_are_taken_before_cached_ones(pool: BlockPool) -> None:
    cached = cache(pool, b"a")
    uncached = pool.allocate(2)
    pool.free(cached + uncached)
    assert ids(pool.allocate(4)) == [2, 1, 3, 0]


def test_the_cached_block_that_was_freed_first_is_evicted_first(pool: BlockPool) -> None:
    a, b, c, d = cache(pool, b"a", b"b", b"c", b"d")
    pool.free([c])
    pool.free([a])
    assert pool.allocate(1) == [c]
    assert pool.get_cached(b"c") is None
    assert pool.get_cached(b"a") is a
    pool.free([b, d])


def test_a_touched_block_is_not_evicted(pool: BlockPool) -> None:
    blocks = cache(pool, b"a", b"b")
    pool.free(blocks)
    pool.touch([blocks[0]])
    pool.allocate(3)
    assert pool.get_cached(b"a") is blocks[0]
    assert pool.get_cached(b"b") is None


def test_a_shared_block_is_free_when_the_last_table_lets_go(pool: BlockPool) -> None:
    blocks = cache(pool, b"a")
    pool.touch(blocks)
    pool.free(blocks)
    assert pool.num_free_blocks == 3
    pool.free(blocks)
    assert pool.num_free_blocks == 4


def test_equal_blocks_computed_at_once_are_not_merged(pool: BlockPool) -> None:
    first, second = cache(pool, b"a", b"a")
    assert pool.get_cached(b"a") is first
    assert second.block_hash is None
    assert pool.take_events() == ([b"a"], [])
    pool.free([first, second])
    assert pool.allocate(1) == [second]


def test_events_are_the_net_change_since_the_last_look(pool: BlockPool) -> None:
    blocks = cache(pool, b"a", b"b")
    assert pool.take_events() == ([b"a", b"b"], [])
    assert pool.take_events() == ([], [])
    pool.free(blocks)
    blocks = cache(pool, b"c", b"d", b"e", b"a")  # evicts both, and computes one of them again
    assert pool.take_events() == ([b"c", b"d", b"e"], [b"b"])
    pool.free(blocks)
    blocks = cache(pool, b"x")
    pool.free(blocks)
    pool.allocate(4)
    assert pool.take_events() == ([], [b"c", b"d", b"e", b"a"])


def test_the_cache_is_reset_only_while_no_block_is_held(pool: BlockPool) -> None:
    blocks = cache(pool, b"a", b"b")
    pool.free([blocks[0]])
    assert not pool.reset()
    assert pool.cached_hashes == {b"a", b"b"}
    pool.take_events()
    pool.free([blocks[1]])
    assert pool.reset()
    assert pool.cached_hashes == set()
    assert pool.num_free_cached_blocks == 0
    assert pool.take_events() == ([], [b"a", b"b"])


def test_freeing_twice_is_noticed(pool: BlockPool) -> None:
    blocks = pool.allocate(1)
    pool.free(blocks)
    with pytest.raises(AssertionError, match="freed twice"):
        pool.free(blocks)


def test_a_wrong_reference_count_is_noticed() -> None:
    pool = BlockPool(2)
    pool.allocate(1)[0].reference_count = 0
    with pytest.raises(AssertionError, match="0 held and 1 free"):
        pool.check_invariants()


def test_a_stale_hash_is_noticed() -> None:
    pool = BlockPool(2)
    cache(pool, b"a")[0].block_hash = b"b"
    with pytest.raises(AssertionError, match="hash map"):
        pool.check_invariants()
