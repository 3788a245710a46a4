"""Modules that stand in for transformers' own, computed by the CPU kernels. All give float32."""

import torch
from torch import nn

from engine.execution.cpu_native import Kernels
from engine.execution.packed_weight import PackedWeight, own


def _rows(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, x.shape[-1]).contiguous()


class PackedLinear(nn.Module):
    """A linear layer over a packed weight."""

    def __init__(self, kernels: Kernels, weight: PackedWeight) -> None:
        super().__init__()
        self._kernels = kernels
        self.weight = weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, depth) float32 to (…, columns) float32."""
        out = self._kernels.linear(_rows(x), self.weight.argument)
        return out.view(*x.shape[:-1], self.weight.columns)


class PackedGatedMLP(nn.Module):
    """down(activation(gate(x)) · up(x)), gate and up as one linear layer."""

    def __init__(
        self, kernels: Kernels, gate_up: PackedLinear, activation: str, down: PackedLinear
    ) -> None:
        super().__init__()
        self._kernels = kernels
        self.activation = activation
        self.gate_up = gate_up
        self.down = down

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, hidden) float32 to (…, hidden) float32."""
        gate_up = self.gate_up(_rows(x))
        out: torch.Tensor = self.down(self._kernels.gated_activation(gate_up, self.activation))
        return out.view(x.shape)


class NativeRMSNorm(nn.Module):
    """x over its root mean square, times a weight."""

    def __init__(self, kernels: Kernels, weight: torch.Tensor, epsilon: float) -> None:
        super().__init__()
        self._kernels = kernels
        self.weight = own(weight)
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape, float32."""
        return self._kernels.rms_norm(x.contiguous(), self.weight, self.epsilon)


class NativeActivation(nn.Module):
    """An activation whose every element is computed alike, wherever it lies in the batch."""

    def __init__(self, kernels: Kernels, activation: str) -> None:
        super().__init__()
        self._kernels = kernels
        self._activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape, float32."""
        return self._kernels.activate(x.contiguous(), self._activation)


class PlainEmbedding(nn.Module):
    """An embedding table, bfloat16 or float32 as it was loaded."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self._weight = own(weight, weight.dtype)

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        """(…) token ids to (…, hidden) float32."""
        return nn.functional.embedding(token_ids, self._weight).float()


class TiedEmbedding(nn.Module):
    """An embedding whose table is the packed weight of the head, so that it is held once."""

    def __init__(self, head: PackedWeight) -> None:
        super().__init__()
        self._head = head

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        """(…) token ids to (…, hidden) float32."""
        return self._head.rows(token_ids)


class RotaryTable(nn.Module):
    """Cosines and sines of all positions, computed once by the module that it replaces.

    torch computes the ends of a tensor with other instructions than its middle, so that a sine
    computed in each step would depend on the position's place in the batch.
    """

    def __init__(self, rotary: nn.Module, num_positions: int) -> None:
        super().__init__()
        self._rotary = rotary
        self._num_positions = num_positions
        self._tables: dict[tuple[object, ...], tuple[torch.Tensor, torch.Tensor]] = {}

    def forward(
        self, x: torch.Tensor, position_ids: torch.Tensor, *variant: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines, each (1, tokens, dim); `variant` is the replaced module's business."""
        if variant not in self._tables:
            self._tables[variant] = self._tabulate(x, variant)
        cosines, sines = self._tables[variant]
        return cosines[position_ids], sines[position_ids]

    def _tabulate(
        self, x: torch.Tensor, variant: tuple[object, ...]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # so that every engine gets the same bits
        try:
            positions = torch.arange(self._num_positions, device=x.device)[None]
            cosines, sines = self._rotary(x, positions, *variant)
        finally:
            torch.set_num_threads(threads)
        return cosines[0], sines[0]
