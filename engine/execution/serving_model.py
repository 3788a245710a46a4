"""Everything that a configuration turns into before the first step: model, kernels, cache, limits."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import transformers

from cluster.config import ClusterConfig, EngineConfig, ModelConfig
from cluster.errors import ConfigError
from engine.execution import cpu_native, fused_decoder, packed_weight, passes, recognized
from engine.execution.causal_lm import CausalLM
from engine.execution.cpu_native import Kernels
from engine.execution.cuda.backends import AttentionShape, device_traits, make_attention
from engine.execution.cuda.kv_pages import PaddedKVStorage
from engine.execution.cuda.memory_profile import profile_cache_bytes
from engine.execution.kept_panels import KeptPanels
from engine.execution.kv_budget import choose_num_blocks, fitting_length, length_limit
from engine.execution.kv_storage import (
    HeadMajorKVStorage,
    KVStorage,
    default_bytes,
    kv_dtype,
)
from engine.execution.loader import check_supported, describe, load_config, load_model
from engine.execution.model_info import ModelInfo, model_fingerprint, weight_files, weights_stamp
from engine.execution.native_build import NoCompiler
from engine.execution.packed_weight import PackedWeight
from engine.execution.paged_attention import AttentionBackend, NativeAttention, TorchAttention
from engine.execution.passes import apply_passes
from engine.execution.weight_cache import WeightCache, source_digest

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
    if config.model.quantization != "none" and kernels is None:
        raise ConfigError(
            f"--quantization {config.model.quantization}: only the compiled CPU kernels can do that"
        )
    dtype = _weights_dtype(config.model.dtype, device, kernels)
    model = load_model(directory, model_config, dtype, device)
    progress(0.2)
    weights_dtype = next(model.parameters()).dtype
    cache_dtype = kv_dtype(config.engine, weights_dtype, device)
    attention = _attention(config.engine, kernels, info, weights_dtype, cache_dtype, device)
    num_blocks = choose_num_blocks(
        config.engine, info, limit, cache_dtype.itemsize,
        _cache_bytes(config.engine, model, info, attention, cache_dtype, limit, device),
    )  # fmt: skip
    limit = fitting_length(config, limit, num_blocks)
    storage_type = PaddedKVStorage if device.type == "cuda" else HeadMajorKVStorage
    fingerprint = _fingerprint(config, directory)
    if kernels is not None:
        with _weight_cache(directory, fingerprint, config.model) as cache:
            model = apply_passes(
                model, kernels,
                partial(
                    PackedWeight, int8=config.model.quantization == "int8", keep=KeptPanels(cache)
                ),
                limit, lambda share: progress(0.2 + 0.7 * share),
                fused=info if isinstance(attention, NativeAttention) else None,
            )  # fmt: skip
    return ServingModel(
        lm=CausalLM(model),
        attention=attention,
        storage=storage_type(info, num_blocks, config.engine.block_size, cache_dtype, device),
        info=info,
        device=device,
        fingerprint=fingerprint,
        max_model_len=limit,
    )


def _weight_cache(directory: Path, fingerprint: str, model: ModelConfig) -> WeightCache:
    """Of this very folder: a fingerprint alone cannot tell any two models apart."""
    sources = (cpu_native, fused_decoder, packed_weight, passes, recognized)
    return WeightCache.open(
        f"{fingerprint} {weights_stamp(directory)}",
        f"{model.dtype} {model.quantization} {transformers.__version__} {source_digest(sources)}",
        sum(file.stat().st_size for file in weight_files(directory)),
    )


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("--device cuda: there is no CUDA device here")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", 0)


def _threads(config: ClusterConfig) -> int:
    # Without a setting torch has as many as `launch` gave this engine, or as there are cores.
    return config.engine.threads_per_engine or torch.get_num_threads()


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


def _cache_bytes(
    config: EngineConfig, model: torch.nn.Module, info: ModelInfo, attention: AttentionBackend,
    cache_dtype: torch.dtype, max_model_len: int, device: torch.device,
) -> int:  # fmt: skip
    if device.type != "cuda" or config.kv_cache_memory is not None:
        return default_bytes(config.data_parallel_size)
    return profile_cache_bytes(
        config, CausalLM(model), info, attention, cache_dtype, max_model_len, device
    )


def _attention(
    config: EngineConfig, kernels: Kernels | None, info: ModelInfo, query_dtype: torch.dtype,
    cache_dtype: torch.dtype, device: torch.device,
) -> AttentionBackend:  # fmt: skip
    if device.type == "cuda" and config.attention_backend != "torch":
        shape = AttentionShape(config.block_size, info.head_dim, query_dtype, cache_dtype)
        return make_attention(device_traits(device), shape)
    if kernels is None:
        return TorchAttention()
    if not NativeAttention.supports(info.head_dim, cache_dtype):
        _log.warning("attention runs in plain torch: the kernel does not support heads of size %d "
                     "with a %s cache", info.head_dim, cache_dtype)  # fmt: skip
        return TorchAttention()
    return NativeAttention(kernels)


def _fingerprint(config: ClusterConfig, directory: Path) -> str:
    """Rounded weights are another model."""
    quantization = config.model.quantization
    fingerprint = model_fingerprint(directory)
    return fingerprint if quantization == "none" else f"{fingerprint}-{quantization}"
