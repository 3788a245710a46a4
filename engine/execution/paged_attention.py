"""Attention over the paged KV cache, as transformers' modules call it.

Registered in transformers' `AttentionInterface` under a name of our own, which also keeps it from
building masks. A model is called on one flat row of tokens, with `paged=PagedStep(…)`.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn
from transformers import AttentionInterface

from cluster.errors import ModelError
from engine.execution.cpu_native import KINDS, MAX_HEAD_DIM, AttentionArguments, Kernels
from engine.execution.input_batch import InputBatch
from engine.execution.kv_storage import KVStorage

ATTENTION_NAME = "quadriga_paged"
_HEAD_DIM_MULTIPLE = 16
_LARGEST_FLOAT16 = 65504.0
_UNSUPPORTED = ("softcap", "s_aux", "position_bias", "head_mask")


class AttentionBackend(Protocol):
    """One way to compute a layer's attention."""

    def attend(self, step: "PagedStep", layer: int, query: torch.Tensor, key: torch.Tensor,
               value: torch.Tensor, scale: float) -> torch.Tensor:  # fmt: skip
        """Write `key` and `value` to the layer's cache and attend to all that is there.

        `query` is (heads, tokens, head dim), `key` and `value` (KV heads, tokens, head dim), in any
        memory order; the result is (tokens, heads, head dim).
        """
        ...


@dataclass(slots=True)
class PagedStep:
    """What an attention layer needs to know of the step it is in."""

    batch: InputBatch
    storage: KVStorage
    backend: AttentionBackend
    layers_seen: set[int] = field(default_factory=set)
    """Layers that came by; a warm-up looks whether it was all of them."""


def paged_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    paged: PagedStep | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The function in transformers' interface: (1, heads, tokens, dim) to (1, tokens, heads, dim).

    Raises ModelError for what this attention cannot do; the warm-up of an engine finds it.
    """
    for name in _UNSUPPORTED:
        if kwargs.get(name) is not None:
            raise ModelError(f"the model's attention uses {name}, which is not supported")
    if paged is None or attention_mask is not None:
        raise ModelError("the model does not pass its arguments on to its attention layers")
    if key.shape[-1] != value.shape[-1]:
        raise ModelError("keys and values of different sizes are not supported")
    layer: int = module.layer_idx  # type: ignore[assignment]  # attention modules count themselves
    paged.layers_seen.add(layer)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = paged.backend.attend(paged, layer, query[0], key[0], value[0], scale)
    return out[None], None


AttentionInterface.register(ATTENTION_NAME, paged_attention_forward)


class TorchAttention:
    """Gather by block table, then torch's attention, a sequence at a time. Any device."""

    def attend(self, step: PagedStep, layer: int, query: torch.Tensor, key: torch.Tensor,
               value: torch.Tensor, scale: float) -> torch.Tensor:  # fmt: skip
        """See `AttentionBackend`."""
        keys, values = step.storage.keys[layer], step.storage.values[layer]
        out = query.new_empty((query.shape[1], query.shape[0], query.shape[2]))
        start = 0
        for run in step.batch.runs:
            rows = slice(start, start + run.num_tokens)
            context = run.first_position + run.num_tokens
            places = self._places(run.block_table, context, step.storage.block_size, query.device)
            new = [part[run.first_position :] for part in places]
            keys[*new] = _in_range(key[:, rows].transpose(0, 1), keys.dtype)
            values[*new] = _in_range(value[:, rows].transpose(0, 1), values.dtype)
            out[rows] = nn.functional.scaled_dot_product_attention(
                query[None, :, rows],
                keys[*places].transpose(0, 1)[None].to(query.dtype),
                values[*places].transpose(0, 1)[None].to(query.dtype),
                attn_mask=self._mask(run.first_position, context, query.device),
                scale=scale,
                enable_gqa=True,
            )[0].transpose(0, 1)
            start += run.num_tokens
        return out

    @staticmethod
    def _places(
        block_table: list[int], context: int, block_size: int, device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Block and slot of each position, in any memory order of the storage."""
        positions = torch.arange(context, device=device)
        blocks = torch.tensor(block_table, device=device)
        return blocks[positions // block_size], positions % block_size

    @staticmethod
    def _mask(first: int, context: int, device: torch.device) -> torch.Tensor | None:
        if context - first == 1:
            return None
        positions = torch.arange(context, device=device)
        return positions[None, :] <= positions[first:, None]


def _in_range(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """As `dtype`, without the infinities that too large a number would become in float16."""
    if dtype == torch.float16 and x.dtype != torch.float16:
        x = x.clamp(-_LARGEST_FLOAT16, _LARGEST_FLOAT16)
    return x.to(dtype)


class NativeAttention:
    """The compiled kernel: all sequences, prompt chunks and decodes, in one call."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    @staticmethod
    def supports(head_dim: int, kv_dtype: torch.dtype) -> bool:
        """Whether the kernel can do this shape and type."""
        fits = head_dim % _HEAD_DIM_MULTIPLE == 0 and head_dim <= MAX_HEAD_DIM
        return fits and kv_dtype in (torch.float16, torch.float32)

    def attend(self, step: PagedStep, layer: int, query: torch.Tensor, key: torch.Tensor,
               value: torch.Tensor, scale: float) -> torch.Tensor:  # fmt: skip
        """See `AttentionBackend`. The last axis of all three is contiguous float32."""
        heads, tokens, head_dim = query.shape
        query, key, value = _dense_lanes(query), _dense_lanes(key), _dense_lanes(value)
        out = torch.empty((tokens, heads, head_dim))
        arguments = attention_arguments(step)
        for name, part in (("query", query), ("key", key), ("value", value)):
            setattr(arguments, name, part.data_ptr())
            setattr(arguments, f"{name}_token_stride", part.stride(1))
            setattr(arguments, f"{name}_head_stride", part.stride(0))
        arguments.key_cache = step.storage.keys[layer].data_ptr()
        arguments.value_cache = step.storage.values[layer].data_ptr()
        arguments.heads, arguments.kv_heads, arguments.head_dim = heads, key.shape[0], head_dim
        arguments.out, arguments.scale = out.data_ptr(), scale
        self._kernels.paged_attention(arguments)
        return out


def attention_arguments(step: PagedStep) -> AttentionArguments:
    """What all layers of a step have in common: its sequences, and where their blocks are."""
    batch = step.batch
    return AttentionArguments(
        query_start=batch.query_start.data_ptr(), first_position=batch.first_position.data_ptr(),
        block_table=batch.block_table.data_ptr(), table_start=batch.table_start.data_ptr(),
        sequences=len(batch.runs), block_size=step.storage.block_size,
        kind=KINDS[step.storage.dtype],
    )  # fmt: skip


def _dense_lanes(x: torch.Tensor) -> torch.Tensor:
    return x if x.stride(-1) == 1 and x.dtype == torch.float32 else x.float().contiguous()
