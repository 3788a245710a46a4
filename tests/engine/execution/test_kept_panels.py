"""Panels are packed once, and are never another layer's."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch

from engine.execution.kept_panels import KeptPanels, Packed
from engine.execution.weight_cache import LEAST_BYTES, WeightCache

WEIGHTS = [
    torch.full((32, 8), 1.0),
    torch.arange(-128, 128).view(32, 8).to(torch.int8),
    torch.full((32, 8), 3.0, dtype=torch.bfloat16),
    torch.full((32, 8), 3.0),
    torch.full((2, 3), 5.0),
    torch.full((32, 8), 1.0),
]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Engine:
    """Packs weights, and knows which it really had to."""

    def __init__(self) -> None:
        self.packed: list[torch.Tensor] = []

    def pack(self, weight: torch.Tensor) -> Packed:
        """Something that can be told from what other weights are packed to."""
        self.packed.append(weight)
        return weight + 1, weight[0].float() if weight.dtype == torch.int8 else None

    def start(self, weights: Sequence[torch.Tensor]) -> list[Packed]:
        """All weights, packed."""
        with WeightCache.open("model", "layout", LEAST_BYTES) as cache:
            keep = KeptPanels(cache)
            return [keep(weight, partial(self.pack, weight)) for weight in weights]


def assert_right(got: Sequence[Packed], weights: Sequence[torch.Tensor]) -> None:
    for (panels, scale), weight in zip(got, weights, strict=True):
        assert panels.dtype == weight.dtype
        assert torch.equal(panels, weight + 1)
        assert (scale is not None) == (weight.dtype == torch.int8)
        if scale is not None:
            assert torch.equal(scale, weight[0].float())


def test_only_the_first_engine_packs_and_all_get_the_same() -> None:
    first, second = Engine(), Engine()
    assert_right(first.start(WEIGHTS), WEIGHTS)
    assert_right(second.start(WEIGHTS), WEIGHTS)
    assert len(first.packed) == len(WEIGHTS)
    assert second.packed == []


def test_in_another_order_each_layer_still_gets_its_own() -> None:
    Engine().start(WEIGHTS)
    for weights in (WEIGHTS[::-1], WEIGHTS[1:], [*WEIGHTS, WEIGHTS[1]]):
        assert_right(Engine().start(weights), weights)


def test_a_weight_that_differs_in_one_region_is_another_one() -> None:
    large = torch.zeros(1000, 100)
    Engine().start([large])
    for row in (0, 400, 990):
        tuned = large.clone()
        tuned[row : row + 10] = 7.0
        assert_right(Engine().start([tuned]), [tuned])
