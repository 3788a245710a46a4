"""The configuration of a measured engine, and what the model in it costs."""

from typing import Any

import msgspec
import torch
import transformers

from cluster.config import ClusterConfig, EngineConfig, ModelConfig
from engine.execution.kv_budget import block_bytes
from engine.execution.kv_storage import kv_dtype
from engine.execution.loader import describe, load_config
from loadtests.engine_lab.cost import ModelCost, stored_bytes
from loadtests.engine_lab.options import EngineTarget


def engine_config(target: EngineTarget, max_model_len: int, num_blocks: int) -> ClusterConfig:
    """An engine whose cache has `num_blocks` blocks. Raises ModelError for a folder that is none."""
    model = ModelConfig(
        model=str(target.model),
        max_model_len=max(16, max_model_len),
        dtype=target.dtype,
        quantization=target.quantization,
    )
    engine = EngineConfig(device=target.device, threads_per_engine=target.threads)
    info = describe(load_config(target.model), target.model)
    value_bytes = _kv_dtype(target).itemsize
    memory = num_blocks * block_bytes(info, engine.block_size, value_bytes)
    return ClusterConfig(
        model=model, engine=msgspec.structs.replace(engine, kv_cache_memory=str(memory))
    )


def model_cost(target: EngineTarget) -> ModelCost:
    """Counted on the model's modules, without its weights."""
    config = load_config(target.model)
    info = describe(config, target.model)
    with torch.device("meta"):
        model: Any = transformers.AutoModelForCausalLM.from_config(config)
    head, table = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    matrices = [p for p in model.parameters() if p.dim() == 2 and p is not head and p is not table]
    weight_type = str(_weights_dtype(target)).removeprefix("torch.")
    kv_values = 2 * info.num_layers * info.num_kv_heads * info.head_dim
    return ModelCost(
        body_weights=sum(matrix.numel() for matrix in matrices),
        head_weights=head.numel(),
        weight_bytes=stored_bytes(weight_type, target.quantization, target.device),
        kv_bytes_per_token=kv_values * _kv_dtype(target).itemsize,
        # A product with the key and one with the value, a multiplication and an addition each.
        attention_flops_per_pair=4 * info.num_layers * config.num_attention_heads * info.head_dim,
    )


def _weights_dtype(target: EngineTarget) -> torch.dtype:
    if target.dtype == "float32":
        return torch.float32
    dtype: torch.dtype | None = getattr(load_config(target.model), "dtype", None)
    return dtype or torch.float32


def _kv_dtype(target: EngineTarget) -> torch.dtype:
    return kv_dtype(EngineConfig(), _weights_dtype(target), torch.device(target.device))
