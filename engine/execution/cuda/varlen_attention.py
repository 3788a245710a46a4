"""torch's own attention over pages, `varlen_attn`, which computes with FlashAttention 3."""

from collections.abc import Callable
from typing import Any

import torch

from engine.execution.cuda.kv_pages import write_kv
from engine.execution.cuda.paged_tables import StepTables
from engine.execution.paged_attention import PagedStep

_CAUSAL = (-1, 0)
"""As a window: all that is to the left, nothing to the right."""


class VarlenAttention:
    """All runs of a step, prompt chunks and decodes, in one call of `varlen_attn`."""

    def __init__(self, varlen_attn: Callable[..., Any]) -> None:
        self._varlen_attn = varlen_attn
        self._tables = StepTables()

    def attend(self, step: PagedStep, layer: int, query: torch.Tensor, key: torch.Tensor,
               value: torch.Tensor, scale: float) -> torch.Tensor:  # fmt: skip
        """See `AttentionBackend`. All three have the cache's type, float16 or bfloat16."""
        tables = self._tables.of(step)
        keys, values = write_kv(step.storage, layer, tables.slots, key, value)
        out: torch.Tensor = self._varlen_attn(
            query.transpose(0, 1), keys, values,
            tables.query_start,
            None,  # FlashAttention 3 takes a block table only without it
            tables.max_query_tokens, tables.max_context_tokens,
            scale=scale, window_size=_CAUSAL, enable_gqa=True,
            seqused_k=tables.context_lengths, block_table=tables.block_table,
        )  # fmt: skip
        return out


def load_varlen_attention() -> VarlenAttention:
    """The backend with torch's function, FlashAttention 3 put beneath it.

    Raises ImportError, RuntimeError or ValueError where that cannot be had.
    """
    from torch.nn.attention import activate_flash_attention_impl  # neither is in older versions
    from torch.nn.attention.varlen import varlen_attn

    activate_flash_attention_impl("FA3")
    return VarlenAttention(varlen_attn)
