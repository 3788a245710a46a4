"""Packed weights give what the weights gave, of any shape, and rounded ones what rounding costs."""

import pytest
import torch

from engine.execution.cpu_native import Kernels
from engine.execution.packed_weight import PackedWeight

COLUMNS = (1, 4, 15, 16, 17, 33, 72, 100)


@pytest.fixture(scope="module", params=[1, 2])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    return Kernels(threads=request.param)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_packed_linear_layer_equals_the_layer(
    kernels: Kernels, columns: int, dtype: torch.dtype, has_bias: bool
) -> None:
    weight = random(columns, 37).to(dtype)
    bias = random(columns, seed=1) if has_bias else None
    packed = PackedWeight(weight, bias)
    for rows in (*range(1, 14), 60):
        x = random(rows, 37, seed=rows)
        expected = torch.nn.functional.linear(
            x.double(), weight.double(), None if bias is None else bias.double()
        )
        assert torch.allclose(kernels.linear(x, packed.argument).double(), expected, atol=1e-4)


@pytest.mark.parametrize("columns", COLUMNS)
def test_an_int8_layer_computes_with_the_weights_that_it_says_it_has(
    kernels: Kernels, columns: int
) -> None:
    bias = random(columns, seed=1)
    packed = PackedWeight(random(columns, 50), bias, int8=True)
    held = packed.rows(torch.arange(columns))
    for rows in (1, 5, 12, 13):
        x = random(rows, 50, seed=rows)
        expected = x.double() @ held.double().T + bias.double()
        assert torch.allclose(kernels.linear(x, packed.argument).double(), expected, atol=1e-4)


def test_int8_is_off_by_half_a_level_of_its_column_at_most() -> None:
    weight = random(40, 64) * torch.logspace(-3, 3, 40)[:, None]
    weight[7] = 0.0
    packed = PackedWeight(weight, int8=True)
    off = (packed.rows(torch.arange(40)) - weight).abs().amax(dim=1)
    assert (off <= weight.abs().amax(dim=1) / 127 * 0.501).all()
    assert packed.panels.dtype == torch.int8


def test_a_bfloat16_weight_is_held_as_it_is() -> None:
    weight = random(20, 8).bfloat16()
    assert torch.equal(PackedWeight(weight).rows(torch.tensor([19, 0])), weight[[19, 0]].float())
