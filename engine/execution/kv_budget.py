"""How many KV blocks an engine has, and how long its sequences may be. No tensors."""

import logging

from cluster.config import ClusterConfig, EngineConfig, parse_bytes
from cluster.errors import ConfigError
from engine.execution.model_info import ModelInfo

DEFAULT_BYTES = 1024**3

_log = logging.getLogger(__name__)


def block_bytes(info: ModelInfo, block_size: int, value_bytes: int) -> int:
    """Memory of one block, over all layers, keys and values, each number `value_bytes` long."""
    return 2 * info.num_layers * block_size * info.num_kv_heads * info.head_dim * value_bytes


def choose_num_blocks(
    config: EngineConfig, info: ModelInfo, max_model_len: int, value_bytes: int, default_bytes: int
) -> int:
    """How many blocks the engine may have, in `default_bytes` where no setting says how much.

    By default no more than `max_num_seqs` requests of full length could use, so that a tiny model
    does not get a million. Raises ConfigError where not even two blocks fit.
    """
    size = block_bytes(info, config.block_size, value_bytes)
    if config.kv_cache_memory is not None:
        num_blocks = _configured_bytes(config.kv_cache_memory) // size
    else:
        useful = config.max_num_seqs * -(-max_model_len // config.block_size)
        num_blocks = min(default_bytes // size, useful)
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


def length_limit(asked: int | None, own: int) -> int:
    """The longest sequence, as asked for or the model's own. Raises ConfigError beyond that."""
    if asked is not None and asked > own:
        raise ConfigError(f"--max-model-len {asked}: the model's own limit is {own}")
    return asked or own


def fitting_length(config: ClusterConfig, limit: int, num_blocks: int) -> int:
    """The longest sequence that the cache can hold, if it is less than the model can do.

    Raises ConfigError if that is less than was asked for.
    """
    held = num_blocks * config.engine.block_size
    if config.model.max_model_len is not None and held < limit:
        raise ConfigError(
            f"--max-model-len {limit}: the KV cache holds {held} tokens; "
            "raise --kv-cache-memory or lower --max-model-len"
        )
    if held < limit:
        _log.warning("requests are limited to %d tokens, which is all the KV cache holds", held)
    return min(limit, held)
