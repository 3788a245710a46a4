"""Attention over pages by the package flash-attn 2, for devices that FlashAttention 3 is not for."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from engine.execution.cuda.kv_pages import write_kv
from engine.execution.cuda.paged_tables import StepTables
from engine.execution.paged_attention import PagedStep


class FlashAttention:
    """All runs of a step, prompt chunks and decodes, in one call of `flash_attn_varlen_func`."""

    def __init__(self, flash_attn_varlen_func: Callable[..., Any]) -> None:
        self._flash_attn_varlen_func = flash_attn_varlen_func
        self._tables = StepTables()

    def attend(self, step: PagedStep, layer: int, query: torch.Tensor, key: torch.Tensor,
               value: torch.Tensor, scale: float) -> torch.Tensor:  # fmt: skip
        """See `AttentionBackend`. All three have the cache's type, float16 or bfloat16."""
        tables = self._tables.of(step)
        keys, values = write_kv(step.storage, layer, tables.slots, key, value)
        out: torch.Tensor = self._flash_attn_varlen_func(
            query.transpose(0, 1), keys, values,
            tables.query_start, tables.context_start,
            tables.max_query_tokens, tables.max_context_tokens,
            softmax_scale=scale, causal=True, block_table=tables.block_table,
        )  # fmt: skip
        return out


def load_flash_attention() -> FlashAttention:
    """The backend with the package's function. Raises ImportError where that cannot be had."""
    # By name: nothing here depends on the package, and type checkers need not know it.
    package = import_module("flash_attn")
    function = getattr(package, "flash_attn_varlen_func", None)
    if function is None:
        raise ImportError("the package flash_attn has no flash_attn_varlen_func")
    return FlashAttention(function)
