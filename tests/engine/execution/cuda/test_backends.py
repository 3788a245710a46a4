"""Which attention a device gets, and why."""

import logging
import re

import pytest
import torch

from engine.execution.cuda import backends
from engine.execution.cuda.backends import (
    FLASH_ATTENTION_2,
    FLASH_ATTENTION_3,
    AttentionShape,
    DeviceTraits,
    choose_backend,
    make_attention,
)
from engine.execution.cuda.gather_attention import GatherAttention

BOTH = frozenset({FLASH_ATTENTION_2, FLASH_ATTENTION_3})
HOPPER = DeviceTraits((9, 0), (2, 13), BOTH)
AMPERE = DeviceTraits((8, 0), (2, 13), BOTH)
HALF = AttentionShape(16, 128, torch.bfloat16, torch.bfloat16)
LARGE_PAGES = HALF._replace(block_size=256)


@pytest.mark.parametrize(
    ("traits", "shape", "name", "reason"),
    [
        (HOPPER, HALF, "varlen", ""),
        (HOPPER, LARGE_PAGES, "varlen", ""),
        (HOPPER._replace(torch_version=(2, 11)), LARGE_PAGES, "flash_attn", "torch 2.11 has no"),
        (HOPPER._replace(modules=BOTH - {FLASH_ATTENTION_3}), LARGE_PAGES, "flash_attn",
         "FlashAttention 3 is not installed"),
        (HOPPER._replace(modules=frozenset()), HALF, "gather", "flash-attn 2 is not installed"),
        (AMPERE, LARGE_PAGES, "flash_attn", "9.0, not 8.0"),
        (AMPERE, HALF, "gather", "--block-size 256"),
        (DeviceTraits((10, 0), (2, 13), BOTH), HALF, "gather", "9.0, not 10.0"),
        (DeviceTraits((7, 5), (2, 13), BOTH), LARGE_PAGES, "gather", "needs compute capability 8"),
        (HOPPER, HALF._replace(query_dtype=torch.float32), "gather", "of one type"),
        (HOPPER, HALF._replace(cache_dtype=torch.float16), "gather", "of one type"),
        (HOPPER, HALF._replace(head_dim=20), "gather", "heads of size 20"),
        (HOPPER, HALF._replace(head_dim=512), "gather", "heads of size 512"),
    ],
)  # fmt: skip
def test_the_choice_and_its_reason(
    traits: DeviceTraits, shape: AttentionShape, name: str, reason: str
) -> None:
    choice = choose_backend(traits, shape)
    assert choice.name == name
    assert re.search(reason, choice.reason)


def test_what_cannot_be_loaded_gives_way_to_what_can(caplog: pytest.LogCaptureFixture) -> None:
    """The traits claim what is not installed where there is no GPU."""
    if torch.cuda.is_available():
        pytest.skip("the kernels may be here")
    with caplog.at_level(logging.WARNING):
        assert isinstance(make_attention(HOPPER, LARGE_PAGES), GatherAttention)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    assert f"{FLASH_ATTENTION_3} cannot be used" in caplog.text
    assert f"{FLASH_ATTENTION_2} cannot be used" in caplog.text
    assert "plain torch" in caplog.text


def test_a_module_counts_as_installed_with_its_package() -> None:
    assert backends._is_installed("json.decoder")
    assert not backends._is_installed("json.no_such_module")
    assert not backends._is_installed("no_such_package.module")
