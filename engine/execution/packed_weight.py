"""A linear layer's weight as the CPU kernels read it."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from engine.execution.cpu_native import PANEL_COLUMNS, LinearArguments
from engine.execution.kept_panels import Packed

Pack = Callable[[torch.Tensor, torch.Tensor | None], "PackedWeight"]
"""Packs a weight (columns, depth) and its bias (columns,), if it has one."""

Keep = Callable[[torch.Tensor, Callable[[], Packed]], Packed]
"""Gives what a function makes of a weight, or what it has made of it before."""

_LARGEST_INT8 = 127
_GROUP_BYTES = 4


def pack_anew(_: torch.Tensor, pack: Callable[[], Packed]) -> Packed:
    """What `pack` gives."""
    return pack()


class PackedWeight:
    """Panels (columns / 16, depth / g, 16, g), padded with zeros; g numbers take 32 bits.

    That is as the processors take them that multiply whole tiles. bfloat16 stays as it is, so that
    nothing is lost of such a checkpoint; all else becomes float32, or int8 if that is asked for: each
    column rounded to 255 levels up to its largest number, and with a scale.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        int8: bool = False,
        keep: Keep = pack_anew,
    ) -> None:
        self.columns, self.depth = weight.shape
        self.panels, self._scale = keep(weight, partial(_packed, weight, int8))
        self._bias = None if bias is None else own(bias)
        self.argument = LinearArguments.of(
            self.panels, self._scale, self._bias, self.depth, self.columns
        )

    def rows(self, indexes: torch.Tensor) -> torch.Tensor:
        """(…) output columns to their weights, (…, depth) float32."""
        panels, columns = indexes // PANEL_COLUMNS, indexes % PANEL_COLUMNS
        rows = self.panels[panels, :, columns].flatten(indexes.dim())[..., : self.depth].float()
        return rows if self._scale is None else rows * self._scale[indexes, None]


def own(weight: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A copy: a view would hold the whole weight file in memory, of which it may be a part."""
    return weight.detach().to(dtype, copy=True).contiguous()


def _packed(weight: torch.Tensor, int8: bool) -> Packed:
    scale = None
    if int8:
        weight, scale = _rounded(weight.float())
    elif weight.dtype != torch.bfloat16:
        weight = weight.float()
    return _panels(weight), scale


def _rounded(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`weight` as int8, and what each row is to be multiplied with."""
    scale = weight.abs().amax(dim=1) / _LARGEST_INT8
    scale[scale == 0] = 1.0
    return (weight / scale[:, None]).round().to(torch.int8), scale.contiguous()


def _panels(weight: torch.Tensor) -> torch.Tensor:
    group = _GROUP_BYTES // weight.itemsize
    missing_columns, missing_depth = (
        -size % whole for size, whole in zip(weight.shape, (PANEL_COLUMNS, group), strict=True)
    )
    weight = nn.functional.pad(weight, (0, missing_depth, 0, missing_columns))
    panels = weight.view(-1, PANEL_COLUMNS, weight.shape[1] // group, group)
    return panels.transpose(1, 2).contiguous()
