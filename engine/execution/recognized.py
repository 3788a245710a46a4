"""Which of transformers' modules the CPU kernels can stand in for.

Recognized is what has the right parts *and* gives the right numbers: a stand-in is tried against the
original on random input first.
"""

import copy
from typing import cast

import torch
from torch import nn
from transformers import activations

from engine.execution.cpu_native import Kernels
from engine.execution.packed_modules import NativeRMSNorm, PackedGatedMLP, PackedLinear
from engine.execution.packed_weight import Pack, PackedWeight

TOLERANCE = 1e-4
_MLP_PARTS = {"gate_proj", "up_proj", "down_proj", "act_fn"}


def agree(original: nn.Module, replacement: nn.Module, width: int) -> bool:
    """Whether both make the same of random rows of this width."""
    generator = torch.Generator().manual_seed(0)
    sample = torch.randn((1, 3, width), generator=generator)
    expected = copy.deepcopy(original).float()(sample)
    return torch.allclose(expected, replacement(sample), rtol=TOLERANCE, atol=TOLERANCE)


def native_norm(module: nn.Module, kernels: Kernels) -> NativeRMSNorm | None:
    """The stand-in for an RMS norm; None for anything else."""
    weight = getattr(module, "weight", None)
    epsilon = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    if not type(module).__name__.endswith("RMSNorm") or not isinstance(epsilon, float):
        return None
    if not isinstance(weight, torch.Tensor) or weight.dim() != 1:
        return None
    # Gemma's weights are differences from 1.
    for effective in (weight.float(), weight.float() + 1.0):
        norm = NativeRMSNorm(kernels, effective, epsilon)
        if agree(module, norm, len(weight)):
            return norm
    return None


def activation_name(module: nn.Module) -> str | None:
    """The kernels' name for an activation; None if they have none."""
    if isinstance(module, nn.SiLU | activations.SiLUActivation):
        return "silu"
    if isinstance(module, activations.GELUTanh | activations.NewGELUActivation) or (
        isinstance(module, nn.GELU) and module.approximate == "tanh"
    ):
        return "gelu_tanh"
    if isinstance(module, nn.GELU | activations.GELUActivation):
        return "gelu"
    return None


def is_gated_mlp(module: nn.Module) -> bool:
    """Whether it has the parts of down(activation(gate(x)) · up(x)), and no others."""
    children = dict(module.named_children())
    return (
        set(children) == _MLP_PARTS
        and activation_name(children.pop("act_fn")) is not None
        and all(type(linear) is nn.Linear for linear in children.values())
    )


def packed_mlp(module: nn.Module, kernels: Kernels, pack: Pack) -> PackedGatedMLP:
    """The stand-in for a gated MLP."""
    gate, up, down = (
        cast("nn.Linear", getattr(module, name)) for name in ("gate_proj", "up_proj", "down_proj")
    )
    activation = activation_name(cast("nn.Module", module.act_fn))
    assert activation is not None
    return PackedGatedMLP(
        kernels,
        PackedLinear(kernels, pack_together(pack, gate, up)),
        activation,
        PackedLinear(kernels, pack(down.weight, down.bias)),
    )


def pack_together(pack: Pack, *linears: nn.Linear) -> PackedWeight:
    """Linear layers of the same input as one, their outputs one after another."""
    weight = torch.cat([linear.weight.detach() for linear in linears])
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    return pack(weight, torch.cat(biases) if biases else None)
