"""Block tables and shared prefixes."""

from collections.abc import Iterator, Sequence

import pytest

from cluster.wire.block_hash import hash_blocks
from cluster.wire.sampling import SamplingParams
from engine.kv_cache.manager import KVCacheManager
from engine.request import Request

BLOCK_SIZE = 4
TOKENS = list(range(100, 110))
"""Two full blocks and a half."""


@pytest.fixture
def manager() -> Iterator[KVCacheManager]:
    manager = KVCacheManager(8, BLOCK_SIZE, enable_prefix_caching=True)
    yield manager
    manager.check_invariants()


def make_request(name: str, token_ids: Sequence[int], cache_salt: str = "") -> Request:
    return Request(
        request_id=name,
        frontend_index=0,
        attempt=0,
        token_ids=list(token_ids),
        num_prompt_tokens=len(token_ids),
        sampling=SamplingParams(),
        block_hashes=hash_blocks(token_ids, BLOCK_SIZE, cache_salt),
        cache_salt=cache_salt,
    )


def compute(manager: KVCacheManager, request: Request, num_tokens: int | None = None) -> None:
    """Let the request hold its blocks, sharing what it can, and have computed its tokens."""
    if request.request_id not in manager.request_ids:
        prefix = manager.find_prefix(request)
        assert manager.allocate_slots(request, request.num_tokens, prefix)
    assert manager.allocate_slots(request, request.num_tokens)
    request.num_computed_tokens = request.num_tokens if num_tokens is None else num_tokens
    manager.cache_computed_blocks(request)


def num_hit_tokens(manager: KVCacheManager, token_ids: Sequence[int], cache_salt: str = "") -> int:
    return len(manager.find_prefix(make_request("probe", token_ids, cache_salt))) * BLOCK_SIZE


def test_a_table_has_room_for_the_tokens_and_not_more(manager: KVCacheManager) -> None:
    request = make_request("a", TOKENS)
    assert manager.allocate_slots(request, 8)
    assert len(manager.block_table(request)) == 2
    assert manager.allocate_slots(request, 9)
    assert len(manager.block_table(request)) == 3
    assert manager.num_used_blocks == 3


def test_a_request_that_does_not_fit_changes_nothing(manager: KVCacheManager) -> None:
    request = make_request("a", TOKENS)
    assert not manager.allocate_slots(request, 33)
    assert not manager.allocate_slots(request, 10, reserve_blocks=6)
    assert manager.request_ids == set()
    assert manager.allocate_slots(request, 10, reserve_blocks=5)


def test_a_full_table_grows_for_the_next_token_while_there_is_a_block(
    manager: KVCacheManager,
) -> None:
    request, other = make_request("a", TOKENS), make_request("b", TOKENS)
    assert manager.allocate_slots(request, 8)
    request.num_computed_tokens = 7
    assert len(manager.table_with_slot(request) or []) == 2
    request.num_computed_tokens = 8
    assert manager.allocate_slots(other, BLOCK_SIZE * manager.pool.num_free_blocks)
    assert manager.table_with_slot(request) is None
    manager.free(other)
    assert manager.table_with_slot(request) is manager.block_table(request)
    assert len(manager.block_table(request)) == 3
    manager.check_invariants()


def test_a_prefix_to_be_revived_counts_as_taken(manager: KVCacheManager) -> None:
    first = make_request("a", TOKENS)
    compute(manager, first)
    manager.free(first)
    second = make_request("b", TOKENS)
    prefix = manager.find_prefix(second)
    assert not manager.allocate_slots(second, 10, prefix, reserve_blocks=6)
    assert manager.allocate_slots(second, 10, prefix, reserve_blocks=5)


def test_computed_full_blocks_are_shared(manager: KVCacheManager) -> None:
    first, second = make_request("a", TOKENS), make_request("b", TOKENS)
    compute(manager, first)
    compute(manager, second)
    assert manager.block_table(first)[:2] == manager.block_table(second)[:2]
    assert manager.block_table(first)[2] != manager.block_table(second)[2]
    assert manager.num_used_blocks == 4


def test_blocks_are_shared_only_once_they_are_computed(manager: KVCacheManager) -> None:
    request = make_request("a", TOKENS)
    assert manager.allocate_slots(request, request.num_tokens)
    assert num_hit_tokens(manager, TOKENS) == 0
    compute(manager, request, num_tokens=7)
    assert num_hit_tokens(manager, TOKENS) == 4
    compute(manager, request, num_tokens=8)
    assert num_hit_tokens(manager, TOKENS) == 8


@pytest.mark.parametrize(("length", "hit"), [(4, 0), (5, 4), (8, 4), (9, 8), (10, 8)])
def test_a_hit_is_all_but_the_last_token_at_most(
    manager: KVCacheManager, length: int, hit: int
) -> None:
    compute(manager, make_request("a", TOKENS))
    assert num_hit_tokens(manager, TOKENS[:length]) == hit


def test_a_hit_ends_where_the_tokens_differ(manager: KVCacheManager) -> None:
    compute(manager, make_request("a", TOKENS))
    assert num_hit_tokens(manager, [*TOKENS[:6], 7, *TOKENS[7:]]) == 4
    assert num_hit_tokens(manager, [7, *TOKENS[1:]]) == 0


def test_another_salt_shares_nothing(manager: KVCacheManager) -> None:
    compute(manager, make_request("a", TOKENS, cache_salt="tenant 1"))
    assert num_hit_tokens(manager, TOKENS) == 0
    assert num_hit_tokens(manager, TOKENS, "tenant 2") == 0
    assert num_hit_tokens(manager, TOKENS, "tenant 1") == 8


def test_blocks_that_output_fills_carry_the_frontends_chain_on(manager: KVCacheManager) -> None:
    request = make_request("a", TOKENS, cache_salt="salt")
    request.token_ids += [1, 2, 3, 4, 5, 6]
    compute(manager, request)
    assert request.block_hashes == hash_blocks(request.token_ids, BLOCK_SIZE, "salt")
    assert manager.pool.cached_hashes == set(request.block_hashes)


def test_a_request_without_hashes_gets_its_own_chain(manager: KVCacheManager) -> None:
    request = make_request("a", TOKENS, cache_salt="salt")
    request.block_hashes = []
    compute(manager, request)
    assert request.block_hashes == hash_blocks(TOKENS, BLOCK_SIZE, "salt")


def test_the_end_of_a_prefix_is_evicted_before_its_beginning(manager: KVCacheManager) -> None:
    first = make_request("a", TOKENS)
    compute(manager, first)
    manager.free(first)
    other = make_request("b", [1] * 4 * 7)
    assert manager.allocate_slots(other, other.num_tokens)
    assert num_hit_tokens(manager, TOKENS) == 4


def test_a_disabled_cache_finds_and_keeps_nothing() -> None:
    manager = KVCacheManager(8, BLOCK_SIZE, enable_prefix_caching=False)
    compute(manager, make_request("a", TOKENS))
    assert num_hit_tokens(manager, TOKENS) == 0
    assert manager.pool.cached_hashes == set()


def test_a_lost_reference_is_noticed(manager: KVCacheManager) -> None:
    request = make_request("a", TOKENS)
    compute(manager, request)
    lost = manager.block_table(request).pop()
    with pytest.raises(AssertionError, match=f"block {lost} counts 1 references"):
        manager.check_invariants()
    manager.block_table(request).append(lost)
