"""Packed panels out of a cache, or into it."""

import hashlib
from collections.abc import Callable

import torch

from engine.execution.weight_cache import WeightCache

Packed = tuple[torch.Tensor, torch.Tensor | None]
"""A linear layer's panels, and their scales if they have some."""

_SAMPLES = 64
_SAMPLE_ELEMENTS = 64


class KeptPanels:
    """Finds what was packed by its number, since a model's layers are packed in the same order.

    And by samples of the weight: should they ever be packed in another order, each is packed anew.
    """

    def __init__(self, cache: WeightCache) -> None:
        self._cache = cache
        self._number = 0

    def __call__(self, weight: torch.Tensor, pack: Callable[[], Packed]) -> Packed:
        """What `pack` makes of the weight; it is not called if the cache has that."""
        name = f"{self._number} {_sample_digest(weight)}"
        self._number += 1
        panels = self._cache.get(f"{name} panels")
        if panels is not None:
            return panels, self._cache.get(f"{name} scale")
        panels, scale = pack()
        panels = self._cache.put(f"{name} panels", panels)
        return panels, None if scale is None else self._cache.put(f"{name} scale", scale)


def _sample_digest(weight: torch.Tensor) -> str:
    """A short text of its shape, its type and some kilobytes from all over it."""
    flat = weight.detach().reshape(-1)
    groups = len(flat) // _SAMPLE_ELEMENTS
    if groups:
        rows = flat[: groups * _SAMPLE_ELEMENTS].view(groups, _SAMPLE_ELEMENTS)
        flat = rows[:: -(-groups // _SAMPLES)].reshape(-1)
    digest = hashlib.blake2b(f"{tuple(weight.shape)} {weight.dtype}".encode(), digest_size=12)
    digest.update(flat.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
