"""Steps over a small cache with random contents, for comparing attention backends."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from engine.execution.input_batch import InputBatch
from engine.execution.kv_storage import KVStorage
from engine.execution.model_info import ModelInfo
from engine.execution.paged_attention import AttentionBackend, PagedStep, TorchAttention
from engine.scheduling.output import ScheduledRequest
from tests.support.serving import make_request

CPU = torch.device("cpu")
MIXED = ((6, 1), (11, 1), (0, 1), (5, 7), (0, 9), (3, 1))
"""Runs as (first position, tokens): decodes, a later chunk, a whole prompt, a chunk of one token."""
DECODES = ((6, 1), (11, 1), (0, 1), (19, 1))
PROMPTS = ((0, 9), (4, 13))


def make_runs(
    shape: Sequence[tuple[int, int]], block_size: int, num_blocks: int
) -> list[ScheduledRequest]:
    """Runs with disjoint block tables in random order, one block longer than they need be."""
    blocks = random.Random(0).sample(range(num_blocks), num_blocks)
    runs = []
    for first, num_tokens in shape:
        end = first + num_tokens
        table = [blocks.pop() for _ in range(-(-end // block_size) + 1)]
        runs.append(ScheduledRequest(make_request(range(end)), first, num_tokens, table))
    return runs


@dataclass(frozen=True, slots=True)
class AttentionCase:
    """One layer's inputs in one step."""

    step: PagedStep
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor

    def output_of(self, backend: AttentionBackend) -> tuple[torch.Tensor, KVStorage]:
        """What a backend computes, and the cache as it leaves it; the case stays as it is."""
        storage = self.step.storage
        storage = copy_storage(storage)
        step = PagedStep(self.step.batch, storage, backend)
        return backend.attend(step, 0, self.query, self.key, self.value, 0.3), storage

    def with_cache(self, storage: KVStorage) -> "AttentionCase":
        """The same inputs over another cache."""
        return replace(self, step=replace(self.step, storage=storage))


def copy_storage(storage: KVStorage) -> KVStorage:
    blocks, block_size, kv_heads, head_dim = storage.keys[0].shape
    info = make_info(kv_heads, head_dim)
    copied = KVStorage(info, blocks, block_size, storage.dtype, CPU)
    copied.keys[0].copy_(storage.keys[0])
    copied.values[0].copy_(storage.values[0])
    return copied


def make_info(kv_heads: int = 2, head_dim: int = 16) -> ModelInfo:
    return ModelInfo(
        vocab_size=384, num_layers=1, num_kv_heads=kv_heads, head_dim=head_dim,
        max_position_embeddings=512, hidden_size=64, eos_token_ids=[],
    )  # fmt: skip


def make_case(
    shape: Sequence[tuple[int, int]] = MIXED,
    block_size: int = 4,
    dtype: torch.dtype = torch.float32,
    cache_dtype: torch.dtype | None = None,
) -> AttentionCase:
    """Four heads over two KV heads, laid out as transformers' modules give them."""
    generator = torch.Generator().manual_seed(0)
    storage = KVStorage(make_info(), 40, block_size, cache_dtype or dtype, CPU)
    for cache in (storage.keys[0], storage.values[0]):
        cache.copy_(torch.randn(cache.shape, generator=generator))
    runs = make_runs(shape, block_size, storage.num_blocks)
    step = PagedStep(InputBatch.build(runs, block_size, CPU), storage, TorchAttention())
    num_tokens = sum(run.num_tokens for run in runs)
    query, key, value = (
        torch.randn((num_tokens, heads, 16), generator=generator).to(dtype).transpose(0, 1)
        for heads in (4, 2, 2)
    )
    return AttentionCase(step, query, key, value)
