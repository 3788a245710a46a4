"""All layers of a decoder in one call of the kernels, for the architecture that most models share.

That is Llama's: norm, attention with rotary positions, norm, gated MLP. What differs is left to the
modules of its authors; between two of them there are some 50 µs of Python, and the layers of a small
model have 300 of them.
"""

import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from engine.execution.cpu_native import (
    ACTIVATIONS,
    DecoderArguments,
    Kernels,
    LayerArguments,
    address,
)
from engine.execution.input_batch import InputBatch
from engine.execution.kv_storage import KVStorage
from engine.execution.model_info import ModelInfo
from engine.execution.packed_modules import NativeRMSNorm
from engine.execution.packed_weight import Pack, PackedWeight
from engine.execution.paged_attention import PagedStep, TorchAttention, attention_arguments
from engine.execution.recognized import (
    TOLERANCE,
    is_gated_mlp,
    native_norm,
    pack_together,
    packed_mlp,
)
from engine.execution.trial_run import trial_run

_log = logging.getLogger(__name__)

_LAYER_PARTS = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
_PROJECTIONS = {"q_proj", "k_proj", "v_proj", "o_proj"}
_HEAD_NORMS = {"q_norm", "k_norm"}
_TRIAL_TOKENS = 5
_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class FusedLayer:
    """One layer's weights."""

    query_key_value: PackedWeight
    output: PackedWeight
    gate_up: PackedWeight
    down: PackedWeight
    input_norm: NativeRMSNorm
    middle_norm: NativeRMSNorm
    query_norm: NativeRMSNorm | None
    key_norm: NativeRMSNorm | None
    activation: str

    def arguments(self) -> LayerArguments:
        """Without the cache."""
        return LayerArguments(
            query_key_value=self.query_key_value.argument, output=self.output.argument,
            gate_up=self.gate_up.argument, down=self.down.argument,
            input_norm=address(self.input_norm.weight),
            middle_norm=address(self.middle_norm.weight),
            query_norm=address(self.query_norm.weight if self.query_norm else None),
            key_norm=address(self.key_norm.weight if self.key_norm else None),
        )  # fmt: skip


class FusedLayers(nn.Module):
    """Stands where a decoder has its layers, and is called as the only one."""

    def __init__(
        self, kernels: Kernels, layers: list[FusedLayer], info: ModelInfo, scale: float
    ) -> None:
        super().__init__()
        self._kernels = kernels
        self._layers = layers  # their tensors are what the arguments point to
        self._arguments = (LayerArguments * len(layers))(*(layer.arguments() for layer in layers))
        self._storage: KVStorage | None = None
        self._info = info
        self._scale = scale
        self._scratch = torch.empty(0)

    def forward(
        self,
        hidden_states: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        paged: PagedStep,
        **_: object,
    ) -> torch.Tensor:
        """(1, tokens, hidden) float32 to the same, through all layers."""
        x = hidden_states[0].clone(memory_format=torch.contiguous_format)
        cosines, sines = (table[0].contiguous() for table in position_embeddings)
        self._bind(paged.storage)
        layer, num_tokens = self._layers[0], x.shape[0]
        arguments = DecoderArguments(
            layers=self._arguments, num_layers=len(self._layers), tokens=num_tokens,
            hidden=x.shape[1], intermediate=layer.down.depth,
            cosines=cosines.data_ptr(), sines=sines.data_ptr(), x=x.data_ptr(),
            epsilon=layer.input_norm.epsilon,
            head_epsilon=layer.query_norm.epsilon if layer.query_norm else 0.0,
            activation=ACTIVATIONS[layer.activation],
            attention=attention_arguments(paged),
        )  # fmt: skip
        self._place_rows(arguments, num_tokens)
        self._kernels.decoder_layers(arguments)
        paged.layers_seen.update(range(len(self._layers)))
        return x[None]

    def _bind(self, storage: KVStorage) -> None:
        if storage is not self._storage:
            self._storage = storage
            for arguments, keys, values in zip(
                self._arguments, storage.keys, storage.values, strict=True
            ):
                arguments.key_cache, arguments.value_cache = keys.data_ptr(), values.data_ptr()

    def _place_rows(self, arguments: DecoderArguments, num_tokens: int) -> None:
        """Give each intermediate result its place in one buffer, which is kept from step to step."""
        layer, info = self._layers[0], self._info
        widths = {
            "normed": layer.query_key_value.depth, "query_key_value": layer.query_key_value.columns,
            "attended": layer.output.depth, "gate_up": layer.gate_up.columns,
            "activated": layer.down.depth,
        }  # fmt: skip
        needed = num_tokens * sum(widths.values())
        if len(self._scratch) < needed:
            self._scratch = torch.empty(needed)
        place = self._scratch.data_ptr()
        for name, width in widths.items():
            setattr(arguments, name, place)
            place += num_tokens * width * _FLOAT_BYTES
        attention = arguments.attention
        head_bytes = info.head_dim * _FLOAT_BYTES
        heads = layer.output.depth // info.head_dim
        attention.query = arguments.query_key_value
        attention.key = attention.query + heads * head_bytes
        attention.value = attention.key + info.num_kv_heads * head_bytes
        for part in ("query", "key", "value"):
            setattr(attention, f"{part}_token_stride", layer.query_key_value.columns)
            setattr(attention, f"{part}_head_stride", info.head_dim)
        attention.out = arguments.attended
        attention.heads, attention.kv_heads = heads, info.num_kv_heads
        attention.head_dim, attention.scale = info.head_dim, self._scale


# ── recognizing ──


def fuse_layers(
    decoder: nn.Module,
    kernels: Kernels,
    info: ModelInfo,
    pack: Pack,
    progress: Callable[[float], None],
) -> bool:
    """Replace the layers of `decoder` by one module, if it has the common architecture.

    The weights of each layer are dropped as soon as they are packed.
    """
    layers = getattr(decoder, "layers", None)
    if not isinstance(layers, nn.ModuleList) or not _are_alike(layers):
        return False
    first = layers[0]
    trial = _packed(first, kernels, PackedWeight)
    scale = cast("float", cast("Any", first).self_attn.scaling)
    if trial is None or not _agrees(
        decoder, first, FusedLayers(kernels, [trial], info, scale), info
    ):
        return False
    fused = []
    for index, layer in enumerate(layers):
        packed = _packed(layer, kernels, pack)
        assert packed is not None
        fused.append(packed)
        layers[index] = nn.Identity()
        progress((index + 1) / len(layers))
    decoder.layers = nn.ModuleList([FusedLayers(kernels, fused, info, scale)])
    return True


def _are_alike(layers: nn.ModuleList) -> bool:
    """Whether all layers have the right parts, and no setting in which they differ."""
    if not all(_has_parts(layer) for layer in layers):
        return False
    first, *others = (_settings(layer) for layer in layers)
    return all(settings == first for settings in others)


def _has_parts(layer: nn.Module) -> bool:
    if {name for name, _ in layer.named_children()} != _LAYER_PARTS:
        return False
    attention, mlp = (cast("nn.Module", getattr(layer, name)) for name in ("self_attn", "mlp"))
    parts = dict(attention.named_children())
    return (
        set(parts) in (_PROJECTIONS, _PROJECTIONS | _HEAD_NORMS)
        and all(type(parts[name]) is nn.Linear for name in _PROJECTIONS)
        and isinstance(getattr(attention, "scaling", None), float)
        and is_gated_mlp(mlp)
    )


def _settings(layer: nn.Module) -> list[tuple[object, ...]]:
    """The plain attributes of a layer and its parts, all but its number."""
    return [
        (name, type(module).__name__, key, value)
        for name, module in layer.named_modules()
        for key, value in sorted(vars(module).items())
        if key != "layer_idx" and isinstance(value, bool | int | float | str | None)
    ]


def _packed(layer: nn.Module, kernels: Kernels, pack: Pack) -> FusedLayer | None:
    parts = cast("Any", layer)
    attention = parts.self_attn
    norms = [native_norm(parts.input_layernorm, kernels),
             native_norm(parts.post_attention_layernorm, kernels)]  # fmt: skip
    head_norms = [
        native_norm(getattr(attention, name), kernels) if hasattr(attention, name) else None
        for name in ("q_norm", "k_norm")
    ]
    if None in norms or (hasattr(attention, "q_norm") and None in head_norms):
        return None
    mlp = packed_mlp(parts.mlp, kernels, pack)
    return FusedLayer(
        query_key_value=pack_together(pack, attention.q_proj, attention.k_proj, attention.v_proj),
        output=pack(attention.o_proj.weight, attention.o_proj.bias),
        gate_up=mlp.gate_up.weight, down=mlp.down.weight,
        input_norm=cast("NativeRMSNorm", norms[0]), middle_norm=cast("NativeRMSNorm", norms[1]),
        query_norm=head_norms[0], key_norm=head_norms[1], activation=mlp.activation,
    )  # fmt: skip


def _agrees(decoder: nn.Module, layer: nn.Module, fused: FusedLayers, info: ModelInfo) -> bool:
    """Whether the layer, as its authors wrote it, makes the same of some made-up tokens."""
    x = torch.randn(
        (1, _TRIAL_TOKENS, info.hidden_size), generator=torch.Generator().manual_seed(0)
    )
    batch = InputBatch.build([trial_run(_TRIAL_TOKENS, block_size=4)], 4, x.device)
    steps = [
        PagedStep(
            batch, KVStorage(info._replace(num_layers=1), 2, 4, torch.float32, x.device),
            TorchAttention(),
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        positions = cast("Any", decoder).rotary_emb(x, batch.position_ids)
        if positions[0].shape[-1] != info.head_dim:
            return False
        theirs = copy.deepcopy(layer).float()(
            x, position_embeddings=positions, attention_mask=None,
            position_ids=batch.position_ids, use_cache=False, paged=steps[0],
        )  # fmt: skip
        ours = fused(x, positions, steps[1])
    except Exception:  # noqa: BLE001 -- code of unknown authors, called in a way of our own
        _log.debug("the layers are not fused", exc_info=True)
        return False
    return isinstance(theirs, torch.Tensor) and torch.allclose(
        theirs, ours, rtol=TOLERANCE, atol=TOLERANCE
    )
