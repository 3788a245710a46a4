"""Every family gives what transformers gives, chunked, batched and paged as it is here."""

import random
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
import transformers

from engine.execution.input_batch import InputBatch
from engine.execution.paged_attention import PagedStep
from engine.execution.runner import ModelRunner
from engine.scheduling.output import ScheduledRequest, SchedulerOutput
from tests.engine.execution.conftest import TinyModel
from tests.support.serving import Slot, generate, make_request, make_runner
from tests.support.tiny_model import FAMILIES, make_tiny_model

Backend = Literal["torch", "cpu_native"]
BACKENDS: tuple[Backend, ...] = ("torch", "cpu_native")


def reference(directory: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, local_files_only=True
    ).eval()


@torch.inference_mode()
def logits_of(runner: ModelRunner, runs: list[ScheduledRequest]) -> torch.Tensor:
    """The logits of every token of a step, (tokens, vocabulary)."""
    model = runner._model
    batch = InputBatch.build(runs, model.storage.block_size, model.device)
    return model.lm.logits(model.lm.hidden_states(PagedStep(batch, model.storage, model.attention)))


def prompt(length: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(3, 384), k=length)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_of_a_mixed_step_equal_those_of_transformers(
    family: str, backend: Backend, tiny_model: TinyModel
) -> None:
    model = reference(tiny_model(family))
    runner = make_runner(tiny_model(family), backend)
    requests = [make_request(prompt(length, seed=length)) for length in (5, 70, 131, 17)]
    slots = [Slot(runner, index) for index in range(len(requests))]
    computed = [0, 69, 64, 10]  # all of a prompt, a decode, a later chunk, a later chunk
    earlier = zip(slots, requests, computed, strict=True)
    logits_of(runner, [slot.run(request, 0, end) for slot, request, end in earlier if end])
    runs = [
        slot.run(request, start, request.num_tokens)
        for slot, request, start in zip(slots, requests, computed, strict=True)
    ]
    ours = logits_of(runner, runs)
    with torch.inference_mode():
        theirs = torch.cat(
            [
                model(torch.tensor([request.token_ids])).logits[0, start:]
                for request, start in zip(requests, computed, strict=True)
            ]
        )
    assert (ours - theirs).abs().max() < 1e-3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_tokens_equal_those_of_generate(
    family: str, backend: Backend, tiny_model: TinyModel
) -> None:
    runner = make_runner(tiny_model(family), backend)
    ids = prompt(40)
    theirs = reference(tiny_model(family)).generate(
        torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.int64),
        max_new_tokens=24, min_new_tokens=24, do_sample=False,
    )  # fmt: skip
    ours = generate(runner, make_request(ids, min_tokens=24, stop_token_ids=[2]), 24, chunk=16)
    assert ours == theirs[0, len(ids) :].tolist()


@pytest.mark.parametrize("kv_cache_dtype", ["float16", "bfloat16"])
def test_a_smaller_cache_type_changes_little(kv_cache_dtype: str, tiny_model: TinyModel) -> None:
    request = make_request(prompt(100))
    logits = []
    for dtype in ("float32", kv_cache_dtype):
        runner = make_runner(tiny_model("llama"), kv_cache_dtype=dtype)
        logits.append(logits_of(runner, [Slot(runner, 0).run(request, 0, 100)]))
    assert 0 < (logits[0] - logits[1]).abs().max() < 0.2


def test_a_float32_checkpoint_keeps_its_precision(tmp_path: Path) -> None:
    directory = make_tiny_model(tmp_path, dtype="float32", tokenizer=False)
    runner = make_runner(directory)
    request = make_request(prompt(50))
    with torch.inference_mode():
        theirs = reference(directory)(torch.tensor([request.token_ids])).logits[0]
    assert (logits_of(runner, [Slot(runner, 0).run(request, 0, 50)]) - theirs).abs().max() < 1e-4


def test_a_chunk_that_does_not_reach_the_end_samples_nothing(tiny_model: TinyModel) -> None:
    runner = make_runner(tiny_model("llama"))
    request = make_request(prompt(40))
    (result,) = runner.execute(SchedulerOutput([Slot(runner, 0).run(request, 0, 20)]))
    assert (result.token_id, result.error) == (None, "")
