"""The memory of a device that is left for the KV cache, after the largest steps have been computed."""

import torch
from msgspec.structs import replace

from cluster.config import EngineConfig
from engine.execution.causal_lm import CausalLM
from engine.execution.input_batch import InputBatch
from engine.execution.kv_storage import KVStorage
from engine.execution.model_info import ModelInfo
from engine.execution.paged_attention import AttentionBackend, PagedStep
from engine.execution.trial_run import trial_run
from engine.scheduling.output import ScheduledRequest

_LOGITS_ROWS = 64
"""As many rows of logits as the runner makes at once."""


def cache_bytes(
    total_bytes: int, utilization: float, peak_bytes: int, other_bytes: int
) -> int:  # fmt: skip
    """What a KV cache may take: the share of the device that an engine may use, less what is in use.

    `peak_bytes` is the most that weights and a step take together; `other_bytes` is what others
    hold, the driver and other processes.
    """
    return max(0, int(total_bytes * utilization) - peak_bytes - other_bytes)


def largest_steps(config: EngineConfig, max_model_len: int) -> list[list[ScheduledRequest]]:
    """The two steps that take the most memory: all prompt, and all decodes, at the longest context.

    All blocks in their tables are block 0: the numbers do not matter.
    """
    run = trial_run(max_model_len, config.block_size)
    run = replace(run, block_table=[0] * len(run.block_table))
    chunks: list[ScheduledRequest] = []
    tokens_left = config.max_num_batched_tokens
    while tokens_left and len(chunks) < config.max_num_seqs:
        num_tokens = min(tokens_left, max_model_len)
        tokens_left -= num_tokens
        first_position = max_model_len - num_tokens
        chunks.append(replace(run, first_position=first_position, num_tokens=num_tokens))
    decode = replace(run, first_position=max_model_len - 1, num_tokens=1)
    return [chunks, [decode] * min(config.max_num_seqs, config.max_num_batched_tokens)]


@torch.inference_mode()
def compute_largest_steps(
    config: EngineConfig, lm: CausalLM, info: ModelInfo, attention: AttentionBackend,
    cache_dtype: torch.dtype, max_model_len: int, device: torch.device,
) -> None:  # fmt: skip
    """Compute `largest_steps` on a cache of one block."""
    storage = KVStorage(info, 1, config.block_size, cache_dtype, device)
    for runs in largest_steps(config, max_model_len):
        batch = InputBatch.build(runs, config.block_size, device)
        hidden = lm.hidden_states(PagedStep(batch, storage, attention))
        lm.logits(hidden[-_LOGITS_ROWS:])


def profile_cache_bytes(
    config: EngineConfig, lm: CausalLM, info: ModelInfo, attention: AttentionBackend,
    cache_dtype: torch.dtype, max_model_len: int, device: torch.device,
) -> int:  # fmt: skip
    """Measure what is left for the KV cache on a CUDA device whose model is loaded."""
    torch.cuda.reset_peak_memory_stats(device)
    compute_largest_steps(config, lm, info, attention, cache_dtype, max_model_len, device)
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device)
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    other = total - free - torch.cuda.memory_reserved(device)
    return cache_bytes(total, config.gpu_memory_utilization, peak, other)
