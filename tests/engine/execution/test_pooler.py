"""Vectors of a real model: the right ones, however the prompt is cut and whoever shares the step."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from cluster.config import EngineConfig
from cluster.wire.messages import AddRequest, Blob
from cluster.wire.sampling import FinishReason, Pooling, PoolingParams, SamplingParams
from engine.core import EngineCore
from engine.execution.runner import ModelRunner
from engine.request import Request
from engine.scheduling.output import RunResult, SchedulerOutput
from tests.engine.execution.conftest import TinyModel
from tests.engine.execution.test_families import prompt
from tests.support.serving import Slot, generate, make_request, make_runner
from tests.support.tiny_model import FAMILIES

MEAN, LAST = PoolingParams(Pooling.MEAN), PoolingParams(Pooling.LAST)
RAW_MEAN = PoolingParams(Pooling.MEAN, normalize=False)
EVERY_KIND = [MEAN, LAST, RAW_MEAN, PoolingParams(Pooling.LAST, normalize=False)]


@pytest.fixture(scope="module")
def runner(tiny_model: TinyModel) -> ModelRunner:
    return make_runner(tiny_model("llama"))


def pool(
    runner: ModelRunner, request: Request, cuts: Iterable[int] = (), slot: int = 0
) -> torch.Tensor:
    """The vector of a request that is computed alone, in chunks that end at `cuts`."""
    start, place, result = 0, Slot(runner, slot), RunResult()
    for end in [*cuts, request.num_tokens]:
        assert result.vector is None
        (result,) = runner.execute(SchedulerOutput([place.run(request, start, end)]))
        assert (result.token_id, result.error) == (None, "")
        start = end
    return as_tensor(result.vector)


def as_tensor(vector: Blob | None) -> torch.Tensor:
    assert vector is not None
    return torch.frombuffer(bytearray(vector.data), dtype=torch.float32)


def states_by_transformers(folder: Path, token_ids: list[int]) -> torch.Tensor:
    """The hidden states after the last norm, (tokens, hidden)."""
    model: Any = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        states: torch.Tensor = model(torch.tensor([token_ids])).last_hidden_state[0]
    return states


@pytest.mark.parametrize("family", FAMILIES)
def test_vectors_are_made_of_what_transformers_computes(tiny_model: TinyModel, family: str) -> None:
    ids = prompt(50)
    states = states_by_transformers(tiny_model(family), ids)
    runner = make_runner(tiny_model(family))
    expected = ((RAW_MEAN, states.mean(0)), (LAST, states[-1] / states[-1].norm()))
    for params, vector in expected:
        ours = pool(runner, make_request(ids, pooling=params), cuts=[20])
        torch.testing.assert_close(ours, vector, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("params", EVERY_KIND)
def test_a_prompt_in_chunks_has_the_vector_of_the_whole(
    runner: ModelRunner, params: PoolingParams
) -> None:
    ids = prompt(100)
    whole = pool(runner, make_request(ids, pooling=params))
    assert (whole.norm().item() == pytest.approx(1.0)) == params.normalize
    for cuts in ([50], [1, 2, 99], range(7, 100, 7)):
        assert torch.equal(pool(runner, make_request(ids, pooling=params), cuts), whole)


@pytest.mark.parametrize("params", [MEAN, LAST])
def test_one_that_begins_anew_has_its_vector_too(
    runner: ModelRunner, params: PoolingParams
) -> None:
    request = make_request(prompt(60), pooling=params)
    whole = pool(runner, make_request(prompt(60), pooling=params))
    runner.execute(SchedulerOutput([Slot(runner, 3).run(request, 0, 40)]))
    assert torch.equal(pool(runner, request, cuts=[13]), whole)


def test_what_pools_and_what_generates_share_a_step_and_change_nothing(
    runner: ModelRunner,
) -> None:
    streams = [make_request(prompt(length, seed=length)) for length in (3, 30)]
    alone = [generate(runner, make_request(stream.token_ids), 1) for stream in streams]
    pooled = [make_request(prompt(length, seed=9), pooling=MEAN) for length in (1, 25)]
    vectors = [pool(runner, make_request(request.token_ids, pooling=MEAN)) for request in pooled]
    mixed = [pooled[0], streams[0], pooled[1], streams[1]]
    runs = [Slot(runner, i).run(request, 0, request.num_tokens) for i, request in enumerate(mixed)]
    results = runner.execute(SchedulerOutput(runs))
    assert [[results[1].token_id], [results[3].token_id]] == alone
    assert all(
        torch.equal(as_tensor(results[place].vector), vector)
        for place, vector in zip((0, 2), vectors, strict=True)
    )
    assert (results[0].token_id, results[1].vector) == (None, None)


def test_no_logits_are_computed_for_what_pools(runner: ModelRunner) -> None:
    head_rows: list[int] = []
    hook = runner._model.lm._head.register_forward_pre_hook(
        lambda _, __, fields: head_rows.append(fields["inputs_embeds"].shape[1]), with_kwargs=True
    )
    pooled, stream = make_request(prompt(9), pooling=LAST), make_request(prompt(5))
    pool(runner, pooled)
    assert not head_rows
    runs = [Slot(runner, 0).run(pooled, 0, 9), Slot(runner, 1).run(stream, 0, 5)]
    runner.execute(SchedulerOutput(runs))
    hook.remove()
    assert head_rows == [1]


def test_states_that_are_no_numbers_fail_their_request_alone(runner: ModelRunner) -> None:
    poisoned = make_request(prompt(20, seed=1), pooling=MEAN)
    healthy = make_request(prompt(20, seed=2), pooling=MEAN)
    expected = pool(runner, make_request(healthy.token_ids, pooling=MEAN))
    slots = [Slot(runner, 1), Slot(runner, 2)]
    for request, slot in zip((poisoned, healthy), slots, strict=True):
        runner.execute(SchedulerOutput([slot.run(request, 0, 19)]))
    keys = runner._model.storage.keys[0]
    keys[slots[0].block_table[0]] = torch.nan
    runs = [slot.run(request, 19, 20)
            for request, slot in zip((poisoned, healthy), slots, strict=True)]  # fmt: skip
    failed, served = runner.execute(SchedulerOutput(runs))
    keys[slots[0].block_table[0]] = 0.0
    assert failed.error.startswith("pooling failed: ")
    assert torch.equal(as_tensor(served.vector), expected)


def test_what_was_not_computed_from_its_start_is_an_error_and_no_wrong_vector(
    runner: ModelRunner,
) -> None:
    request = make_request(prompt(20), pooling=MEAN)
    slot = Slot(runner, 0)
    runner.execute(SchedulerOutput([slot.run(request, 0, 5)]))
    (result,) = runner.execute(SchedulerOutput([slot.run(request, 10, 20)]))
    assert result.vector is None
    assert result.error.startswith("pooling failed: ")


@pytest.mark.parametrize("params", [MEAN, LAST])
def test_a_preempted_prompt_has_the_same_vector(runner: ModelRunner, params: PoolingParams) -> None:
    ids = prompt(100)
    expected = pool(runner, make_request(ids, pooling=params))
    config = EngineConfig(max_num_batched_tokens=16, prefill_chunk_while_decoding=2)
    core = EngineCore(config, 15, 512, runner, runner.vocab_size)
    stream = SamplingParams(temperature=0.0, max_tokens=120)
    pooled = SamplingParams(max_tokens=0, pooling=params)
    assert core.add_request(message("stream", prompt(90, seed=4), stream), 0.0) is None
    for _ in range(7):
        step(core)
    assert core.add_request(message("pooled", ids, pooled), 1.0) is None
    outputs = {output.request_id: output for _ in range(250) for output in step(core)}
    assert not core.has_work
    assert core.stats().preemptions > 0
    assert outputs["pooled"].finish_reason is FinishReason.STOP
    assert torch.equal(as_tensor(outputs["pooled"].vector), expected)


def message(name: str, ids: list[int], sampling: SamplingParams) -> AddRequest:
    return AddRequest(name, 0, 1, 1, 0, ids, [], [], sampling)


def step(core: EngineCore) -> list[Any]:
    if not core.has_work:
        return []
    work = core.begin_step(1.0)
    return core.finish_step(work, core.submit(work).result(), 1.0).get(0, [])
