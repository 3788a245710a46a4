"""Everything that a configuration turns into before the first step: model, kernels, cache, limits."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

import torch

from cluster.config import ClusterConfig
from cluster.errors import ConfigError
from engine.execution.causal_lm import CausalLM
from engine.execution.cpu_native import Kernels
from engine.execution.kv_budget import choose_num_blocks, fitting_length, length_limit
from engine.execution.kv_storage import KVStorage, default_bytes, kv_dtype
from engine.execution.loader import check_supported, describe, load_config, load_model
from engine.execution.model_info import ModelInfo, model_fingerprint
from engine.execution.native_build import NoCompiler
from engine.execution.paged_attention import AttentionBackend, NativeAttention, TorchAttention
from engine.execution.passes import apply_passes

_log = logging.getLogger(__name__)

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class ServingModel:
    """A model on its device, ready for the first step."""

    lm: CausalLM
    attention: AttentionBackend
    storage: KVStorage
    info: ModelInfo
    device: torch.device
    fingerprint: str
    max_model_len: int


def prepare_model(config: ClusterConfig, progress: Progress) -> ServingModel:
    """Load the configured model. Raises ModelError or ConfigError, naming what cannot be used."""
    directory = config.model_directory
    device = _device(config.engine.device)
    threads = _threads(config)
    torch.set_num_threads(threads)
    model_config = load_config(directory)
    info = describe(model_config, directory)
    limit = length_limit(config.model.max_model_len, info.max_position_embeddings)
    check_supported(model_config, limit)
    kernels = _kernels(config.engine.attention_backend, device, threads)
    dtype = _weights_dtype(config.model.dtype, device, kernels)
    model = load_model(directory, model_config, dtype, device)
    progress(0.2)
    cache_dtype = kv_dtype(config.engine, next(model.parameters()).dtype, device)
    num_blocks = choose_num_blocks(
        config.engine, info, limit, cache_dtype.itemsize, default_bytes(config.engine, device)
    )
    limit = fitting_length(config, limit, num_blocks)
    if kernels is not None:
        model = apply_passes(model, kernels, limit, lambda share: progress(0.2 + 0.7 * share))
    return ServingModel(
        lm=CausalLM(model),
        attention=_attention(kernels, info, cache_dtype),
        storage=KVStorage(info, num_blocks, config.engine.block_size, cache_dtype, device),
        info=info,
        device=device,
        fingerprint=model_fingerprint(directory),
        max_model_len=limit,
    )


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("--device cuda: there is no CUDA device here")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", 0)


def _threads(config: ClusterConfig) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    share = max(1, (cores or 1) // config.engine.data_parallel_size)
    return config.engine.threads_per_engine or share


def _kernels(backend: str, device: torch.device, threads: int) -> Kernels | None:
    """The compiled kernels; None where plain torch is to be used, or is all there is."""
    if backend == "torch" or device.type != "cpu":
        return None
    try:
        return Kernels(threads)
    except NoCompiler as error:
        _log.warning("the model runs in plain torch, several times slower: %s", error)
        return None


def _weights_dtype(asked: str, device: torch.device, kernels: Kernels | None) -> str:
    # On a CPU the arithmetic is float32; only our kernels read smaller weights without loss of speed.
    if device.type == "cpu" and (kernels is None or asked == "float16"):
        return "float32"
    return asked


def _attention(
    kernels: Kernels | None, info: ModelInfo, cache_dtype: torch.dtype
) -> AttentionBackend:
    if kernels is None:
        return TorchAttention()
    if not NativeAttention.supports(info.head_dim, cache_dtype):
        _log.warning("attention runs in plain torch: the kernel does not support heads of size %d "
                     "with a %s cache", info.head_dim, cache_dtype)  # fmt: skip
        return TorchAttention()
    return NativeAttention(kernels)
