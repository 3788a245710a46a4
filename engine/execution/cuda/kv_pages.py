"""The KV cache as device kernels use it: written through a slot mapping, with a block for padding."""

import torch

from engine.execution.kv_storage import KVStorage
from engine.execution.model_info import ModelInfo


class PaddedKVStorage(KVStorage):
    """A storage with one block more than is handed out.

    The rows that fill up a batch write to it and read from it, so that no request's KV is touched.
    """

    def __init__(
        self, info: ModelInfo, num_blocks: int, block_size: int, dtype: torch.dtype,
        device: torch.device,
    ) -> None:  # fmt: skip
        super().__init__(info, num_blocks + 1, block_size, dtype, device)
        self.num_blocks = num_blocks
        self.spare_block = num_blocks


def write_kv(
    storage: KVStorage, layer: int, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Write a step's keys and values to their slots, and return the layer's caches.

    `slots` is (tokens,) int64; `key` and `value` are (KV heads, tokens, head dim); the caches are
    (blocks, block size, KV heads, head dim). Of several tokens in one slot any may stay.
    """
    keys, values = storage.keys[layer], storage.values[layer]
    for cache, new in ((keys, key), (values, value)):
        cache.flatten(0, 1).index_copy_(0, slots, _as_type(new.transpose(0, 1), cache.dtype))
    return keys, values


def _as_type(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """As `dtype`, without the infinities that too large a number would become in a smaller one."""
    if x.dtype == dtype:
        return x
    largest = torch.finfo(dtype).max
    return x.clamp(-largest, largest).to(dtype)
