"""The backends of CUDA devices against the plain one; kernels are stood in for by their documents."""

import inspect
from collections.abc import Callable, Sequence

import pytest
import torch
from torch.nn.attention import varlen

from engine.execution.cuda import gather_attention
from engine.execution.cuda.flash_attention import FlashAttention
from engine.execution.cuda.gather_attention import GatherAttention
from engine.execution.cuda.varlen_attention import VarlenAttention
from engine.execution.paged_attention import AttentionBackend, TorchAttention
from tests.engine.execution.cuda import kernels_by_hand
from tests.engine.execution.cuda.steps import DECODES, MIXED, PROMPTS, copy_storage, make_case

BACKENDS: dict[str, tuple[Callable[[], AttentionBackend], int]] = {
    "gather": (GatherAttention, 4),
    "varlen": (lambda: VarlenAttention(kernels_by_hand.varlen_attn), 4),
    "flash_attn": (lambda: FlashAttention(kernels_by_hand.flash_attn_varlen_func), 256),
}


@pytest.mark.parametrize("shape", [MIXED, DECODES, PROMPTS])
@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_computes_and_stores_what_the_plain_one_does(
    name: str, shape: Sequence[tuple[int, int]]
) -> None:
    make_backend, block_size = BACKENDS[name]
    case = make_case(shape, block_size)
    out, storage = case.output_of(make_backend())
    expected, expected_storage = case.output_of(TorchAttention())
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(storage.keys[0], expected_storage.keys[0])
    assert torch.equal(storage.values[0], expected_storage.values[0])


@pytest.mark.parametrize("name", BACKENDS)
def test_tables_are_made_anew_for_every_step(name: str) -> None:
    make_backend, block_size = BACKENDS[name]
    backend = make_backend()
    for shape in (MIXED, DECODES):
        case = make_case(shape, block_size)
        expected, _ = case.output_of(TorchAttention())
        torch.testing.assert_close(case.output_of(backend)[0], expected, rtol=1e-4, atol=1e-5)


def test_what_stands_in_for_varlen_attn_is_called_like_it() -> None:
    ours = inspect.signature(kernels_by_hand.varlen_attn).parameters.values()
    theirs = inspect.signature(varlen.varlen_attn).parameters.values()
    assert [(p.name, p.kind, p.default) for p in ours] == [
        (p.name, p.kind, p.default) for p in theirs
    ]


def test_gathering_in_slices_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case()
    at_once, _ = case.output_of(GatherAttention())
    monkeypatch.setattr(gather_attention, "_MAX_GATHERED_TOKENS", 40)
    torch.testing.assert_close(case.output_of(GatherAttention())[0], at_once)


def test_gathered_pages_may_hold_anything_beyond_a_context() -> None:
    case = make_case()
    expected, _ = case.output_of(GatherAttention())
    poisoned = copy_storage(case.step.storage)
    kept = torch.zeros(poisoned.keys[0].shape[:2], dtype=torch.bool)
    for run in case.step.batch.runs:
        for position in range(run.first_position):
            kept[run.block_table[position // 4], position % 4] = True
    poisoned.keys[0][~kept] = torch.nan
    poisoned.values[0][~kept] = torch.nan
    out, _ = case.with_cache(poisoned).output_of(GatherAttention())
    assert torch.equal(out, expected)


def test_a_run_that_reads_what_is_no_number_is_alone_with_it() -> None:
    case = make_case(DECODES)
    expected, _ = case.output_of(GatherAttention())
    poisoned = copy_storage(case.step.storage)
    poisoned.keys[0][case.step.batch.runs[1].block_table[0]] = torch.nan
    out, _ = case.with_cache(poisoned).output_of(GatherAttention())
    assert out[1].isnan().all()
    assert torch.equal(out[[0, 2, 3]], expected[[0, 2, 3]])


def test_gathering_reads_a_cache_of_a_smaller_type() -> None:
    case = make_case(cache_dtype=torch.float16)
    out, storage = case.output_of(GatherAttention())
    expected, expected_storage = case.output_of(TorchAttention())
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(storage.keys[0], expected_storage.keys[0])
