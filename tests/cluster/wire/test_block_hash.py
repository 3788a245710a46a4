from hypothesis import given
from hypothesis import strategies as st

from cluster.wire.block_hash import block_hash, chain_root, hash_blocks

token_lists = st.lists(st.integers(0, 2**31 - 1), max_size=100)


@given(token_lists, st.integers(1, 20))
def test_only_full_blocks_have_a_hash(token_ids: list[int], block_size: int) -> None:
    assert len(hash_blocks(token_ids, block_size)) == len(token_ids) // block_size


@given(token_lists, token_lists)
def test_equal_prefixes_have_equal_hashes(prefix: list[int], rest: list[int]) -> None:
    hashes = hash_blocks(prefix, 4)
    assert hash_blocks(prefix + rest, 4)[: len(hashes)] == hashes


def test_one_early_token_changes_every_later_hash() -> None:
    ours, theirs = hash_blocks([1] * 64, 16), hash_blocks([2] + [1] * 63, 16)
    assert not set(ours) & set(theirs)


def test_a_salt_keeps_equal_prompts_apart() -> None:
    assert not set(hash_blocks([1] * 64, 16, "a")) & set(hash_blocks([1] * 64, 16, "b"))


def test_the_chain_can_be_extended_block_by_block() -> None:
    first = block_hash(chain_root(), [1, 2])
    assert hash_blocks([1, 2, 3, 4], 2) == [first, block_hash(first, [3, 4])]


def test_hashes_stay_the_same_over_versions() -> None:
    assert hash_blocks([1, 2, 3, 4], 4)[0].hex() == "30fa044183e9a67616d10cb41f74e5c0"
