"""Writing through a slot mapping, and the block that nobody is given."""

import torch

from engine.execution.cuda.kv_pages import PaddedKVStorage, write_kv
from engine.execution.kv_storage import KVStorage
from tests.engine.execution.cuda.steps import CPU, make_info


def test_keys_and_values_go_to_their_slots_and_nowhere_else() -> None:
    storage = KVStorage(make_info(), 6, 4, torch.float32, CPU)
    key, value = torch.randn(2, 3, 16), torch.randn(2, 3, 16)
    keys, values = write_kv(storage, 0, torch.tensor([9, 2, 23]), key, value)
    assert torch.equal(keys[[2, 0, 5], [1, 2, 3]], key.transpose(0, 1))
    assert torch.equal(values[[2, 0, 5], [1, 2, 3]], value.transpose(0, 1))
    assert keys.flatten(0, 1).any(dim=-1).any(dim=-1).sum() == 3
    assert keys is storage.keys[0]


def test_what_is_too_large_for_the_cache_stays_finite() -> None:
    storage = KVStorage(make_info(), 1, 4, torch.float16, CPU)
    key = torch.full((2, 1, 16), -1e6)
    keys, _ = write_kv(storage, 0, torch.tensor([0]), key, key)
    assert keys[0, 0].eq(torch.finfo(torch.float16).min).all()


def test_the_spare_block_is_not_counted() -> None:
    storage = PaddedKVStorage(make_info(), 6, 4, torch.float32, CPU)
    assert storage.num_blocks == 6
    assert storage.spare_block == 6
    assert len(storage.keys[0]) == 7
