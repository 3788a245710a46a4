"""Packed weights give what the weights gave, of any shape, and rounded ones what rounding costs."""

import pytest
import torch

from engine.execution import cpu_native, native_build
from engine.execution.cpu_native import Kernels
from engine.execution.packed_weight import PackedWeight

COLUMNS = (1, 4, 15, 16, 17, 33, 72, 100)
ROWS = (*range(1, 14), 16, 17, 33, 60)
DEPTHS = (37, 50, 128)
"""Only the last one is a multiple of what tiles take at once."""


@pytest.fixture(scope="module", params=[1, 2])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    return Kernels(threads=request.param)


@pytest.fixture(scope="module")
def vector_kernels() -> Kernels:
    """As they are on a processor without tiles."""
    kernels = Kernels(threads=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_build, "_FLAGS", (*native_build._FLAGS, "-mno-amx-int8"))
        kernels._library = cpu_native._load.__wrapped__()
    return kernels


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_packed_linear_layer_equals_the_layer(
    kernels: Kernels,
    vector_kernels: Kernels,
    columns: int,
    depth: int,
    dtype: torch.dtype,
    has_bias: bool,
) -> None:
    weight = random(columns, depth).to(dtype)
    bias = random(columns, seed=1) if has_bias else None
    packed = PackedWeight(weight, bias)
    for rows in ROWS:
        x = random(rows, depth, seed=rows)
        expected = torch.nn.functional.linear(
            x.double(), weight.double(), None if bias is None else bias.double()
        )
        for some in (kernels, vector_kernels):
            assert torch.allclose(some.linear(x, packed.argument).double(), expected, atol=1e-5)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_an_int8_layer_computes_with_the_weights_that_it_says_it_has(
    kernels: Kernels, vector_kernels: Kernels, columns: int, depth: int
) -> None:
    bias = random(columns, seed=1)
    packed = PackedWeight(random(columns, depth), bias, int8=True)
    held = packed.rows(torch.arange(columns))
    for rows in ROWS:
        x = random(rows, depth, seed=rows)
        expected = x.double() @ held.double().T + bias.double()
        for some in (kernels, vector_kernels):
            assert torch.allclose(some.linear(x, packed.argument).double(), expected, atol=1e-5)


def summed_in_order(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x·weightᵀ in float32, one product after the other."""
    out = torch.zeros(len(x), len(weight))
    for position in range(x.shape[1]):
        out += x[:, position : position + 1] * weight[:, position]
    return out


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("largest", [1.0, 300.0])
def test_a_deep_layer_is_as_exact_as_float32(
    kernels: Kernels, vector_kernels: Kernels, int8: bool, largest: float
) -> None:
    depth = 1536
    packed = PackedWeight(random(64, depth).bfloat16(), int8=int8)
    held = packed.rows(torch.arange(64))
    x = random(40, depth, seed=1)
    x[:, ::500] *= largest
    exact = x.double() @ held.double().T

    def off(out: torch.Tensor) -> float:
        return (out.double() - exact).abs().mean().item()

    out, vector_out = (some.linear(x, packed.argument) for some in (kernels, vector_kernels))
    assert off(vector_out) <= 1.2 * off(summed_in_order(x, held))
    if not torch.equal(out, vector_out):  # Tiles are as exact as sums in blocks.
        # In fixed point a row's largest input says how exact the others are.
        allowed = 5 if int8 and largest > 1.0 else 1.5
        assert off(out) <= allowed * off(x @ held.T)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_an_input_that_is_no_number_shows_in_its_row_alone(
    kernels: Kernels, int8: bool, bad: float
) -> None:
    packed = PackedWeight(random(40, 64).bfloat16(), int8=int8)
    x = random(20, 64, seed=1)
    x[3, 50] = bad
    out = kernels.linear(x, packed.argument)
    assert not out[3].isfinite().any()
    assert out[torch.arange(20) != 3].isfinite().all()


def test_a_row_of_zeros_gives_zeros(kernels: Kernels) -> None:
    packed = PackedWeight(random(40, 64), int8=True)
    assert torch.equal(kernels.linear(torch.zeros(2, 64), packed.argument), torch.zeros(2, 40))


@pytest.mark.parametrize("int8", [False, True])
def test_a_row_is_the_same_bits_beside_whatever_other_rows(kernels: Kernels, int8: bool) -> None:
    packed = PackedWeight(random(100, 4096).bfloat16(), int8=int8)
    x = random(200, 4096, seed=1)
    together = kernels.linear(x, packed.argument)
    for first, end in ((0, 1), (5, 6), (31, 33), (64, 97), (150, 200)):
        assert torch.equal(kernels.linear(x[first:end], packed.argument), together[first:end])


def test_int8_is_off_by_half_a_level_of_its_column_at_most() -> None:
    weight = random(40, 64) * torch.logspace(-3, 3, 40)[:, None]
    weight[7] = 0.0
    packed = PackedWeight(weight, int8=True)
    off = (packed.rows(torch.arange(40)) - weight).abs().amax(dim=1)
    assert (off <= weight.abs().amax(dim=1) / 127 * 0.501).all()
    assert packed.panels.dtype == torch.int8


@pytest.mark.parametrize("depth", [7, 8])
def test_a_bfloat16_weight_is_held_as_it_is(depth: int) -> None:
    weight = random(20, depth).bfloat16()
    assert torch.equal(PackedWeight(weight).rows(torch.tensor([19, 0])), weight[[19, 0]].float())
