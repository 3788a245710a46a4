"""Chained hashes of full KV blocks, equal in every process and after every restart.

The hash of a block covers its parent's hash and its own token ids, so equal hashes mean equal
prefixes from the first token on (the idea is vLLM's). The first block also covers the cache salt,
which keeps tenants apart. 128 bits of BLAKE2b: a collision cannot be found, so none is checked for.
A faster hash without that property (xxh3) would save a fiftieth of what tokenizing costs, and would
let a client craft a prompt that answers with what another one's prompt has left in the cache.
"""

from array import array
from collections.abc import Sequence
from hashlib import blake2b

HASH_SEED = "quadriga-1"
"""Part of every chain; engines report it, so that peers with another scheme are noticed."""


def chain_root(cache_salt: str = "") -> bytes:
    """The parent of a first block."""
    return blake2b(f"{HASH_SEED}\0{cache_salt}".encode(), digest_size=16).digest()


def block_hash(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """The hash of a full block with these token ids, 16 bytes."""
    return _chain(parent, array("I", token_ids).tobytes())


def hash_blocks(token_ids: Sequence[int], block_size: int, cache_salt: str = "") -> list[bytes]:
    """The hashes of all full blocks of a prompt, in order; a partial last block has none."""
    hashes: list[bytes] = []
    parent = chain_root(cache_salt)
    full = array("I", token_ids[: len(token_ids) // block_size * block_size])
    tokens, block_bytes = full.tobytes(), block_size * full.itemsize
    for start in range(0, len(tokens), block_bytes):
        parent = _chain(parent, tokens[start : start + block_bytes])
        hashes.append(parent)
    return hashes


def _chain(parent: bytes, tokens: bytes) -> bytes:
    return blake2b(parent + tokens, digest_size=16).digest()
