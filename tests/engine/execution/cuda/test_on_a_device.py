"""What only a CUDA device can show: `pytest -m gpu tests/engine/execution/cuda`."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from msgspec.structs import replace

from cluster.config import ClusterConfig, EngineConfig, ModelConfig
from engine.execution.cuda.memory_profile import compute_largest_steps, profile_cache_bytes
from engine.execution.drawn_tokens import NOTHING_DRAWN
from engine.execution.runner import ModelRunner
from engine.scheduling.output import SchedulerOutput
from tests.engine.execution.conftest import TinyModel
from tests.engine.execution.test_families import logits_of, prompt
from tests.engine.execution.test_overlap import answers, tokens_of
from tests.support.serving import Slot, generate, make_request
from tests.support.tiny_model import FAMILIES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


def device_runner(directory: Path, dtype: str, **engine: Any) -> ModelRunner:
    settings: dict[str, Any] = {"kv_cache_memory": "8MiB", "max_num_seqs": 8}
    return ModelRunner(
        ClusterConfig(
            model=ModelConfig(model=str(directory), dtype=dtype),  # type: ignore[arg-type]
            engine=EngineConfig(device="cuda", **(settings | engine)),
        )
    )


@torch.inference_mode()
def logits_by_transformers(directory: Path, ids: list[int], dtype: torch.dtype) -> torch.Tensor:
    model = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=dtype, local_files_only=True
    ).cuda()
    logits: torch.Tensor = model(torch.tensor([ids], device="cuda")).logits[0]
    return logits.float()


@pytest.mark.parametrize("block_size", [16, 256])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_as_close_to_exact_ones_as_those_of_transformers(
    family: str, block_size: int, tiny_model: TinyModel
) -> None:
    """In bfloat16, whichever kernels there are; chunks and a decode in one step."""
    runner = device_runner(tiny_model(family), "bfloat16", block_size=block_size)
    request, other = make_request(prompt(131)), make_request(prompt(40, seed=1))
    slot, beside = Slot(runner, 0), Slot(runner, 1)
    first = logits_of(runner, [slot.run(request, 0, 64), beside.run(other, 0, 39)])[:64]
    second = logits_of(runner, [beside.run(other, 39, 40), slot.run(request, 64, 131)])[1:]
    exact = logits_by_transformers(tiny_model(family), request.token_ids, torch.float32)
    theirs = logits_by_transformers(tiny_model(family), request.token_ids, torch.bfloat16)
    error = (torch.cat([first, second]) - exact).abs().max()
    assert error <= 2 * (theirs - exact).abs().max()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_stream_that_moves_goes_on_as_it_would_have(family: str, tiny_model: TinyModel) -> None:
    """In float32, where two ways of adding up choose the same tokens."""
    runner, elsewhere = (device_runner(tiny_model(family), "float32") for _ in range(2))
    ids = prompt(37)
    undisturbed = generate(runner, make_request(ids), 12)
    for delivered in (0, 1, 6, 11):
        moved = make_request(ids + undisturbed[:delivered], num_prompt_tokens=37)
        assert generate(elsewhere, moved, 12 - delivered, chunk=11) == undisturbed


def test_replayed_decodes_equal_those_run_kernel_by_kernel(tiny_model: TinyModel) -> None:
    runner = device_runner(tiny_model("llama"), "bfloat16", block_size=256)
    graphs = runner._decode_graphs
    if graphs is None:
        pytest.skip("no kernel is installed that can be recorded")
    requests = [make_request(prompt(length, seed=length)) for length in (5, 70, 131)]
    places = [(Slot(runner, index), request) for index, request in enumerate(requests)]
    runner.execute(SchedulerOutput([slot.run(r, 0, r.num_tokens - 1) for slot, r in places]))
    runs = [slot.run(r, r.num_tokens - 1, r.num_tokens) for slot, r in places]
    for size in (3, 1, 2):
        eager = logits_of(runner, runs[:size])
        replayed = runner._model.lm.logits(graphs.hidden_states(runs[:size], NOTHING_DRAWN))
        torch.testing.assert_close(replayed, eager, rtol=2e-2, atol=2e-2)


def test_tokens_are_the_same_where_steps_overlap(tiny_model: TinyModel) -> None:
    """In float32, and by default on a device."""
    runner = device_runner(tiny_model("llama"), "float32")
    assert runner.overlaps_steps
    plain = device_runner(tiny_model("llama"), "float32", async_scheduling=False)
    assert not plain.overlaps_steps
    outputs = [answers(runner, max_in_flight=2), answers(plain, max_in_flight=1)]
    assert tokens_of(outputs[0]) == tokens_of(outputs[1])


def test_a_step_of_plain_draws_is_submitted_without_a_word_to_the_host(
    tiny_model: TinyModel,
) -> None:
    runner = device_runner(tiny_model("llama"), "bfloat16")
    request = make_request(prompt(20), temperature=0.8, top_p=0.9, seed=3)
    first = Slot(runner, 0).run(request, 0, 20)
    ahead = replace(first, first_position=20, num_tokens=1)
    runner.execute(SchedulerOutput([first]))  # what is set up in a first call may wait
    runner.submit(SchedulerOutput([first]))
    torch.cuda.set_sync_debug_mode("error")
    try:
        outcome = runner.submit(SchedulerOutput([ahead]))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert outcome.result()[0].token_id is not None


def test_the_cache_that_is_measured_leaves_room_for_the_largest_steps(
    tiny_model: TinyModel,
) -> None:
    utilization = 0.5
    runner = device_runner(tiny_model("llama"), "bfloat16")
    model = runner._model
    config = EngineConfig(gpu_memory_utilization=utilization, max_num_batched_tokens=4096)
    arguments = (config, model.lm, model.info, model.attention, torch.bfloat16, 512, model.device)
    num_bytes = profile_cache_bytes(*arguments)
    _, total = torch.cuda.mem_get_info()
    assert 0 < num_bytes < utilization * total
    cache = torch.empty(num_bytes, dtype=torch.uint8, device="cuda")
    compute_largest_steps(*arguments)
    free, _ = torch.cuda.mem_get_info()
    assert total - free <= (utilization + 0.02) * total
    del cache
