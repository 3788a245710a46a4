"""What is rewritten in a loaded model so that the CPU kernels compute it.

Each pass replaces what it recognizes and leaves the rest to torch. Recognized is what has the right
parts *and* gives the right numbers: a stand-in is tried against the original on random input first.
"""

import copy
import logging
from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import nn
from transformers import activations

from engine.execution.cpu_native import Kernels
from engine.execution.packed_modules import (
    NativeActivation,
    NativeRMSNorm,
    PackedGatedMLP,
    PackedLinear,
    PlainEmbedding,
    RotaryTable,
    TiedEmbedding,
)

_log = logging.getLogger(__name__)

Progress = Callable[[float], None]
_TOLERANCE = 1e-4


def apply_passes(
    model: nn.Module, kernels: Kernels, max_model_len: int, progress: Progress
) -> nn.Module:
    """`model` with everything recognized replaced, and the replaced weights dropped."""
    _replace_rotary(model, max_model_len)
    _replace_norms(model, kernels)
    _replace_mlps(model, kernels, lambda share: progress(share / 2))
    _replace_activations(model, kernels)
    heads = _replace_linears(model, kernels, lambda share: progress(0.5 + share / 2))
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


def _agree(original: nn.Module, replacement: nn.Module, width: int) -> bool:
    generator = torch.Generator().manual_seed(0)
    sample = torch.randn((1, 3, width), generator=generator)
    expected = copy.deepcopy(original).float()(sample)
    return torch.allclose(expected, replacement(sample), rtol=_TOLERANCE, atol=_TOLERANCE)


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
        norm = _native_norm(child, kernels)
        if norm is not None:
            setattr(parent, name, norm)
            replaced += 1
    _report("RMS norms", replaced)


def _native_norm(module: nn.Module, kernels: Kernels) -> NativeRMSNorm | None:
    weight = getattr(module, "weight", None)
    epsilon = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    if not type(module).__name__.endswith("RMSNorm") or not isinstance(epsilon, float):
        return None
    if not isinstance(weight, torch.Tensor) or weight.dim() != 1:
        return None
    # Gemma's weights are differences from 1.
    for effective in (weight.float(), weight.float() + 1.0):
        norm = NativeRMSNorm(kernels, effective, epsilon)
        if _agree(module, norm, len(weight)):
            return norm
    return None


def _activation_name(module: nn.Module) -> str | None:
    if isinstance(module, nn.SiLU | activations.SiLUActivation):
        return "silu"
    if isinstance(module, activations.GELUTanh | activations.NewGELUActivation) or (
        isinstance(module, nn.GELU) and module.approximate == "tanh"
    ):
        return "gelu_tanh"
    if isinstance(module, nn.GELU | activations.GELUActivation):
        return "gelu"
    return None


def _replace_mlps(model: nn.Module, kernels: Kernels, progress: Progress) -> None:
    """Replace gated MLPs; one of each class is compared with its original."""
    verdicts: dict[type[nn.Module], bool] = {}
    places = [place for place in _places(model) if _is_gated_mlp(place[2])]
    for index, (parent, name, child) in enumerate(places):
        if not verdicts.get(type(child), True):
            continue
        mlp = _packed_mlp(child, kernels)
        if type(child) not in verdicts:
            width = cast("nn.Linear", child.gate_proj).in_features
            verdicts[type(child)] = _agree(child, mlp, width)
        if verdicts[type(child)]:
            setattr(parent, name, mlp)
        progress((index + 1) / len(places))
    _report("gated MLPs", sum(verdicts[type(child)] for _, _, child in places))


def _is_gated_mlp(module: nn.Module) -> bool:
    children = dict(module.named_children())
    linears = [children.get(name) for name in ("gate_proj", "up_proj", "down_proj")]
    return (
        all(type(linear) is nn.Linear for linear in linears)
        and len(children) == 4
        and "act_fn" in children
        and _activation_name(children["act_fn"]) is not None
    )


def _packed_mlp(module: nn.Module, kernels: Kernels) -> PackedGatedMLP:
    gate, up, down = (
        cast("nn.Linear", getattr(module, name)) for name in ("gate_proj", "up_proj", "down_proj")
    )
    bias = None if gate.bias is None else torch.cat([gate.bias, up.bias])
    activation = _activation_name(cast("nn.Module", module.act_fn))
    assert activation is not None
    return PackedGatedMLP(
        kernels,
        PackedLinear(kernels, torch.cat([gate.weight, up.weight]), bias),
        activation,
        PackedLinear(kernels, down.weight, down.bias),
    )


def _replace_activations(model: nn.Module, kernels: Kernels) -> None:
    replaced = 0
    for parent, name, child in _places(model):
        activation = _activation_name(child)
        if activation is not None:
            setattr(parent, name, NativeActivation(kernels, activation))
            replaced += 1
    _report("activations", replaced)


def _replace_linears(
    model: nn.Module, kernels: Kernels, progress: Progress
) -> dict[torch.Tensor, PackedLinear]:
    """Replace what is a plain linear layer; the stand-ins by the weights that they have packed."""
    packed: dict[torch.Tensor, PackedLinear] = {}
    places = [place for place in _places(model) if type(place[2]) is nn.Linear]
    for index, (parent, name, child) in enumerate(places):
        linear = cast("nn.Linear", child)
        packed[linear.weight] = PackedLinear(kernels, linear.weight, linear.bias)
        setattr(parent, name, packed[linear.weight])
        progress((index + 1) / len(places))
    _report("linear layers", len(places))
    return packed


def _replace_embeddings(model: nn.Module, linears: dict[torch.Tensor, PackedLinear]) -> None:
    replaced = 0
    for parent, name, child in _places(model):
        # A subclass may scale what it looks up; it stays, as float32.
        if type(child) is nn.Embedding:
            head = linears.get(child.weight)
            table = PlainEmbedding(child.weight) if head is None else TiedEmbedding(head)
            setattr(parent, name, table)
            replaced += 1
    _report("embeddings", replaced)
