"""The K and V tensors of all layers, in blocks, and the memory that there is for them."""

import math

import numpy
import psutil
import torch

from cluster.config import EngineConfig
from engine.execution.kv_budget import DEFAULT_BYTES
from engine.execution.model_info import ModelInfo

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class KVStorage:
    """Keys and values of every layer, each (blocks, block size, KV heads, head dim), all zero."""

    def __init__(
        self, info: ModelInfo, num_blocks: int, block_size: int, dtype: torch.dtype,
        device: torch.device,
    ) -> None:  # fmt: skip
        shape = (num_blocks, block_size, info.num_kv_heads, info.head_dim)
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.dtype = dtype
        self.keys = [self._zeros(shape, device) for _ in range(info.num_layers)]
        self.values = [self._zeros(shape, device) for _ in range(info.num_layers)]

    def _zeros(self, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
        return torch.zeros(shape, dtype=self.dtype, device=device)


class HeadMajorKVStorage(KVStorage):
    """A storage in main memory in which each KV head's rows of a block lie together.

    So attention reads a block in order, which is how the processor foresees what comes next.
    """

    def _zeros(self, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
        blocks, block_size, kv_heads, head_dim = shape
        # numpy's zeros take no memory until they are written to; torch's do at once.
        raw = numpy.zeros(math.prod(shape) * self.dtype.itemsize, dtype=numpy.uint8)
        rows = torch.from_numpy(raw).view(self.dtype).view(blocks, kv_heads, block_size, head_dim)
        return rows.transpose(1, 2)


def kv_dtype(config: EngineConfig, weights: torch.dtype, device: torch.device) -> torch.dtype:
    """The type of the cache: as configured; float16 on the CPU, the weights' on a GPU."""
    if config.kv_cache_dtype != "auto":
        return _DTYPES[config.kv_cache_dtype]
    return torch.float16 if device.type == "cpu" else weights


def default_bytes(data_parallel_size: int) -> int:
    """The memory that the cache gets on the CPU where no setting says how much."""
    # Half of this replica's share of what is free: the other half is for the step itself.
    share = psutil.virtual_memory().available // (2 * data_parallel_size)
    return int(min(DEFAULT_BYTES, share))
