"""Attention over pages in plain torch: the context is copied out of them first. Any device."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from engine.execution.cuda.kv_pages import write_kv
from engine.execution.cuda.paged_tables import PagedTables, StepTables
from engine.execution.paged_attention import PagedStep
from engine.scheduling.output import ScheduledRequest

_MAX_GATHERED_TOKENS = 65_536
"""Context of decodes that is copied at once: the copies of a layer are to stay small."""


class GatherAttention:
    """Decodes many at a time, prompt chunks one by one."""

    def __init__(self) -> None:
        self._tables = StepTables()

    def attend(self, step: PagedStep, layer: int, query: torch.Tensor, key: torch.Tensor,
               value: torch.Tensor, scale: float) -> torch.Tensor:  # fmt: skip
        """See `AttentionBackend`."""
        tables = self._tables.of(step)
        keys, values = write_kv(step.storage, layer, tables.slots, key, value)
        query = query.transpose(0, 1)
        context = tables.block_table.shape[1] * step.storage.block_size
        rows_at_once = max(1, _MAX_GATHERED_TOKENS // context)
        parts = []
        for start in range(0, tables.num_decodes, rows_at_once):
            rows = slice(start, min(start + rows_at_once, tables.num_decodes))
            parts.append(_decode(query[rows], keys, values, tables, rows, scale))
        first_row = tables.num_decodes
        for index, run in enumerate(step.batch.runs[tables.num_decodes :], tables.num_decodes):
            chunk = query[first_row : first_row + run.num_tokens]
            parts.append(_chunk(chunk, keys, values, tables.block_table[index], run, scale))
            first_row += run.num_tokens
        return torch.cat(parts)


def _decode(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, tables: PagedTables,
            rows: slice, scale: float) -> torch.Tensor:  # fmt: skip
    """One token of each run in `rows`: (rows, heads, dim) to the same."""
    pages = tables.block_table[rows]
    positions = torch.arange(pages.shape[1] * keys.shape[1], device=query.device)
    is_context = positions < tables.context_lengths[rows, None]
    # Heads that share a KV head stand where a prompt's tokens would: no head is copied for them.
    out = scaled_dot_product_attention(
        query.reshape(len(query), keys.shape[2], -1, query.shape[2]),
        _context_of(keys, pages, is_context, query.dtype),
        _context_of(values, pages, is_context, query.dtype),
        attn_mask=is_context[:, None, None],
        scale=scale,
    )
    return out.flatten(1, 2)


def _context_of(
    cache: torch.Tensor, pages: torch.Tensor, is_context: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """(rows, KV heads, context, dim), zero beyond each row's own context.

    Zero, since others may have left there what is no number, and a weight of 0 would not hide that.
    """
    rows, kv_heads, head_dim = len(pages), cache.shape[2], cache.shape[3]
    context = cache.index_select(0, pages.flatten()).view(rows, -1, kv_heads, head_dim)
    context.masked_fill_(~is_context[..., None, None], 0.0)
    return context.transpose(1, 2).to(dtype)


def _chunk(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, pages: torch.Tensor,
           run: ScheduledRequest, scale: float) -> torch.Tensor:  # fmt: skip
    """Several tokens of one run: (tokens, heads, dim) to the same."""
    context = run.first_position + run.num_tokens
    pages = pages[: -(-context // keys.shape[1])]
    positions = torch.arange(context, device=query.device)
    key, value = (
        cache.index_select(0, pages).flatten(0, 1)[:context].transpose(0, 1)[None].to(query.dtype)
        for cache in (keys, values)
    )
    out = scaled_dot_product_attention(
        query.transpose(0, 1)[None], key, value,
        attn_mask=positions <= positions[run.first_position :, None],
        scale=scale, enable_gqa=True,
    )  # fmt: skip
    return out[0].transpose(0, 1)
