"""The K and V tensors of all layers, in blocks, and how many blocks there is memory for."""

import math

import numpy
import psutil
import torch

from cluster.config import EngineConfig, parse_bytes
from cluster.errors import ConfigError
from engine.execution.model_info import ModelInfo

DEFAULT_BYTES = 1024**3
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
        self.keys = [_zeros(shape, dtype, device) for _ in range(info.num_layers)]
        self.values = [_zeros(shape, dtype, device) for _ in range(info.num_layers)]


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    # numpy's zeros take no memory until they are written to; torch's do at once.
    raw = numpy.zeros(math.prod(shape) * dtype.itemsize, dtype=numpy.uint8)
    return torch.from_numpy(raw).view(dtype).view(shape)


def kv_dtype(config: EngineConfig, weights: torch.dtype, device: torch.device) -> torch.dtype:
    """The type of the cache: as configured; float16 on the CPU, the weights' on a GPU."""
    if config.kv_cache_dtype != "auto":
        return _DTYPES[config.kv_cache_dtype]
    return torch.float16 if device.type == "cpu" else weights


def block_bytes(info: ModelInfo, block_size: int, dtype: torch.dtype) -> int:
    """Memory of one block, over all layers, keys and values."""
    values = info.num_layers * block_size * info.num_kv_heads * info.head_dim
    return 2 * values * dtype.itemsize


def choose_num_blocks(
    config: EngineConfig, info: ModelInfo, max_model_len: int, dtype: torch.dtype,
    device: torch.device,
) -> int:  # fmt: skip
    """How many blocks the engine may have.

    By default no more than `max_num_seqs` requests of full length could use, so that a tiny model
    does not get a million. Raises ConfigError where not even two blocks fit.
    """
    size = block_bytes(info, config.block_size, dtype)
    if config.kv_cache_memory is not None:
        num_blocks = _configured_bytes(config.kv_cache_memory) // size
    else:
        useful = config.max_num_seqs * -(-max_model_len // config.block_size)
        num_blocks = min(_default_bytes(config, device) // size, useful)
    if num_blocks < 2:
        raise ConfigError(
            f"--kv-cache-memory: the memory holds {num_blocks} blocks of {size} bytes, "
            "and an engine needs two at least"
        )
    return num_blocks


def _configured_bytes(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise ConfigError(f"--kv-cache-memory: {error}") from error


def _default_bytes(config: EngineConfig, device: torch.device) -> int:
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return int(total * config.gpu_memory_utilization) - (total - free)
    # Half of this replica's share of what is free: the other half is for the step itself.
    share = psutil.virtual_memory().available // (2 * config.data_parallel_size)
    return int(min(DEFAULT_BYTES, share))
