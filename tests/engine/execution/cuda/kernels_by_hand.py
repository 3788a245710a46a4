"""What the documents of the attention kernels say they compute, written down in plain torch.

They have the names, order and defaults of the real functions, and check what those check.
"""

import torch


def varlen_attn(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
    cu_seq_q: torch.Tensor, cu_seq_k: torch.Tensor | None, max_q: int, max_k: int, *,
    return_aux: object = None, scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1), enable_gqa: bool = False,
    seqused_k: torch.Tensor | None = None, block_table: torch.Tensor | None = None,
    num_splits: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """torch.nn.attention.varlen.varlen_attn with FlashAttention 3, over pages, causal."""
    assert cu_seq_k is None, "not together with a block table"
    assert block_table is not None
    assert seqused_k is not None
    assert scale is not None
    assert window_size == (-1, 0)
    assert enable_gqa
    check_vector(seqused_k, len(cu_seq_q) - 1)
    return causal_attention(
        query, key, value, cu_seq_q, seqused_k, max_q, max_k, block_table, scale
    )


def flash_attn_varlen_func(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor, max_seqlen_q: int, max_seqlen_k: int,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
    window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None, deterministic: bool = False,
    return_attn_probs: bool = False, block_table: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    """flash_attn.flash_attn_varlen_func, version 2, over pages, causal."""
    assert k.shape[1] % 256 == 0, "the page size must be a multiple of 256"
    assert block_table is not None
    assert softmax_scale is not None
    assert causal
    check_vector(cu_seqlens_k, len(cu_seqlens_q))
    return causal_attention(
        q, k, v, cu_seqlens_q, cu_seqlens_k.diff(), max_seqlen_q, max_seqlen_k, block_table,
        softmax_scale,
    )  # fmt: skip


def check_vector(vector: torch.Tensor, length: int) -> None:
    assert vector.dtype == torch.int32
    assert vector.is_contiguous()
    assert vector.shape == (length,)


def causal_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, query_start: torch.Tensor,
    context_lengths: torch.Tensor, max_query: int, max_context: int, block_table: torch.Tensor,
    scale: float,
) -> torch.Tensor:  # fmt: skip
    check_vector(query_start, len(context_lengths) + 1)
    assert block_table.dtype == torch.int32
    assert block_table.stride(-1) == 1
    assert len(block_table) == len(context_lengths)
    assert block_table.min() >= 0
    assert block_table.max() < len(key)
    assert query.dtype == key.dtype == value.dtype
    assert query_start[-1] == len(query)
    assert query_start.diff().max() <= max_query
    assert context_lengths.max() <= max_context
    assert max_context <= block_table.shape[1] * key.shape[1]
    group = query.shape[1] // key.shape[2]
    out = torch.empty_like(query)
    for index, context in enumerate(context_lengths.tolist()):
        rows = slice(int(query_start[index]), int(query_start[index + 1]))
        keys, values = (
            cache[block_table[index].long()].flatten(0, 1)[:context].double()
            for cache in (key, value)
        )
        scores = scale * torch.einsum(
            "qhd,khd->hqk", query[rows].double(), keys.repeat_interleave(group, dim=1)
        )
        num_queries = scores.shape[1]
        last = torch.arange(context - num_queries, context)
        scores.masked_fill_(torch.arange(context) > last[:, None], float("-inf"))
        out[rows] = torch.einsum(
            "hqk,khd->qhd", scores.softmax(-1), values.repeat_interleave(group, dim=1)
        ).to(query.dtype)
    return out
