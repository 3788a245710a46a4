"""Layers of the common architecture become one call; others stay as their authors wrote them.

That the numbers are right is tested for all families in `test_families`, that they do not depend on
company in `test_batch_invariance`.
"""

import random

import pytest
import torch

from cluster.errors import ConfigError
from engine.execution.fused_decoder import FusedLayers
from engine.execution.runner import ModelRunner
from engine.scheduling.output import SchedulerOutput
from tests.engine.execution.conftest import TinyModel
from tests.engine.execution.test_batch_invariance import logits_alone, logits_in_company
from tests.engine.execution.test_families import logits_of, prompt
from tests.support.serving import Slot, make_request, make_runner
from tests.support.tiny_model import FAMILIES

FUSED = {"llama", "mistral", "qwen2", "qwen3", "gemma"}


def is_fused(runner: ModelRunner) -> bool:
    modules = runner._model.lm._decoder.modules()
    return any(isinstance(module, FusedLayers) for module in modules)


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_of_the_common_architecture_are_fused(family: str, tiny_model: TinyModel) -> None:
    assert is_fused(make_runner(tiny_model(family))) == (family in FUSED)


def test_a_cache_that_the_kernel_cannot_read_leaves_the_layers_alone(tiny_model: TinyModel) -> None:
    runner = make_runner(tiny_model("llama"), kv_cache_dtype="bfloat16")
    assert not is_fused(runner)


def test_the_fused_layers_give_what_the_modules_give(tiny_model: TinyModel) -> None:
    logits = []
    for backend in ("cpu_native", "torch"):
        runner = make_runner(tiny_model("qwen3"), backend)
        place, request = Slot(runner, 2), make_request(prompt(90))
        runner.execute(SchedulerOutput([place.run(request, 0, 60)]))
        logits.append(logits_of(runner, [place.run(request, 60, 90)]))
    assert (logits[0] - logits[1]).abs().max() < 1e-4


def test_a_long_step_and_a_short_one_share_their_buffer(tiny_model: TinyModel) -> None:
    runner = make_runner(tiny_model("llama"))
    short = make_request(prompt(3))
    before = logits_alone(runner, short)
    logits_alone(runner, make_request(prompt(200)), slot=1)
    assert torch.equal(logits_alone(runner, short), before)


# ── int8 ──


@pytest.mark.parametrize("family", ["llama", "granite"])
def test_int8_logits_are_near_and_do_not_depend_on_company(
    family: str, tiny_model: TinyModel
) -> None:
    request = make_request(prompt(80))
    exact = logits_alone(make_runner(tiny_model(family)), request)
    runner = make_runner(tiny_model(family), quantization="int8")
    rounded = logits_alone(runner, request)
    assert 0 < (rounded - exact).abs().max() < 0.1 * exact.abs().max()
    chance = random.Random(0)
    assert torch.equal(logits_in_company(runner, request, [1, 30, 31], chance), rounded)


def test_models_with_and_without_int8_are_told_apart(tiny_model: TinyModel) -> None:
    prints = {
        make_runner(tiny_model("llama"), quantization=quantization).model_fingerprint
        for quantization in ("none", "int8")
    }
    assert len(prints) == 2


def test_int8_needs_the_compiled_kernels(tiny_model: TinyModel) -> None:
    with pytest.raises(ConfigError, match="--quantization int8: only the compiled CPU kernels"):
        make_runner(tiny_model("llama"), "torch", quantization="int8")
