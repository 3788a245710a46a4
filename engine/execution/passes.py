"""What is rewritten in a loaded model so that the CPU kernels compute it.

Each pass replaces what it recognizes (see `recognized`) and leaves the rest to torch.
"""

import logging
from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import nn

from engine.execution.cpu_native import Kernels
from engine.execution.fused_decoder import fuse_layers
from engine.execution.model_info import ModelInfo
from engine.execution.packed_modules import (
    NativeActivation,
    PackedLinear,
    PlainEmbedding,
    RotaryTable,
    TiedEmbedding,
)
from engine.execution.packed_weight import Pack, PackedWeight
from engine.execution.recognized import (
    activation_name,
    agree,
    is_gated_mlp,
    native_norm,
    packed_mlp,
)

_log = logging.getLogger(__name__)

Progress = Callable[[float], None]


def apply_passes(
    model: nn.Module, kernels: Kernels, pack: Pack, max_model_len: int, progress: Progress,
    fused: ModelInfo | None,
) -> nn.Module:  # fmt: skip
    """`model` with everything recognized replaced, and the replaced weights dropped.

    With its numbers in `fused`, layers of the common architecture become one module.
    """
    _replace_rotary(model, max_model_len)
    decoder = getattr(model, str(model.base_model_prefix), None)
    if fused is not None and isinstance(decoder, nn.Module):
        is_fused = fuse_layers(decoder, kernels, fused, pack, lambda share: progress(share / 2))
        _report("fused layers", fused.num_layers if is_fused else 0)
    _replace_norms(model, kernels)
    _replace_mlps(model, kernels, pack, lambda share: progress(share / 2))
    _replace_activations(model, kernels)
    heads = _replace_linears(model, kernels, pack, lambda share: progress(0.5 + share / 2))
    _replace_embeddings(model, heads)
    return model.float()  # what is left: norms and odd parts, small ones


def _places(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    """Every (parent, attribute, module), as a list made before anything is replaced."""
    places = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
    ]
    return iter(places)


def _report(what: str, replaced: int) -> None:
    _log.debug("%s: %s", what, f"{replaced} replaced" if replaced else "nothing recognized")


def _replace_rotary(model: nn.Module, max_model_len: int) -> None:
    replaced = 0
    for parent, name, child in _places(model):
        if name == "rotary_emb" and hasattr(child, "inv_freq"):
            setattr(parent, name, RotaryTable(child, max_model_len))
            replaced += 1
    _report("rotary tables", replaced)


def _replace_norms(model: nn.Module, kernels: Kernels) -> None:
    replaced = 0
    for parent, name, child in _places(model):
        norm = native_norm(child, kernels)
        if norm is not None:
            setattr(parent, name, norm)
            replaced += 1
    _report("RMS norms", replaced)


def _replace_mlps(model: nn.Module, kernels: Kernels, pack: Pack, progress: Progress) -> None:
    """Replace gated MLPs; one of each class is compared with its original."""
    verdicts: dict[type[nn.Module], bool] = {}
    places = [place for place in _places(model) if is_gated_mlp(place[2])]
    for index, (parent, name, child) in enumerate(places):
        if not verdicts.get(type(child), True):
            continue
        if type(child) not in verdicts:
            width = cast("nn.Linear", child.gate_proj).in_features
            verdicts[type(child)] = agree(child, packed_mlp(child, kernels, PackedWeight), width)
        if verdicts[type(child)]:
            setattr(parent, name, packed_mlp(child, kernels, pack))
        progress((index + 1) / len(places))
    _report("gated MLPs", sum(verdicts[type(child)] for _, _, child in places))


def _replace_activations(model: nn.Module, kernels: Kernels) -> None:
    replaced = 0
    for parent, name, child in _places(model):
        activation = activation_name(child)
        if activation is not None:
            setattr(parent, name, NativeActivation(kernels, activation))
            replaced += 1
    _report("activations", replaced)


def _replace_linears(
    model: nn.Module, kernels: Kernels, pack: Pack, progress: Progress
) -> dict[torch.Tensor, PackedWeight]:
    """Replace what is a plain linear layer; what was packed, by the weights as they were."""
    packed: dict[torch.Tensor, PackedWeight] = {}
    places = [place for place in _places(model) if type(place[2]) is nn.Linear]
    for index, (parent, name, child) in enumerate(places):
        linear = cast("nn.Linear", child)
        packed[linear.weight] = pack(linear.weight, linear.bias)
        setattr(parent, name, PackedLinear(kernels, packed[linear.weight]))
        progress((index + 1) / len(places))
    _report("linear layers", len(places))
    return packed


def _replace_embeddings(model: nn.Module, heads: dict[torch.Tensor, PackedWeight]) -> None:
    replaced = 0
    for parent, name, child in _places(model):
        # A subclass may scale what it looks up; it stays, as float32.
        if type(child) is nn.Embedding:
            head = heads.get(child.weight)
            table = PlainEmbedding(child.weight) if head is None else TiedEmbedding(head)
            setattr(parent, name, table)
            replaced += 1
    _report("embeddings", replaced)
