"""The seam: scheduled runs in, one result each out."""

from typing import Any

import pytest
import torch
from msgspec.structs import replace

from cluster.fault_plan import parse_fault
from cluster.wire.messages import TokenLogprobs
from engine.execution.runner import ModelRunner
from engine.fault_injection import FaultyRunner
from engine.scheduling.output import SchedulerOutput
from tests.engine.execution.conftest import TinyModel
from tests.engine.execution.test_families import logits_of, prompt
from tests.engine.execution.test_sampler import as_tensors
from tests.support.serving import Slot, generate, make_request, make_runner


@pytest.fixture(scope="module")
def runner(tiny_model: TinyModel) -> ModelRunner:
    return make_runner(tiny_model("llama"))


def test_what_the_hello_tells_is_there(runner: ModelRunner) -> None:
    assert runner.max_model_len == 512
    assert runner.vocab_size == 384
    assert runner.num_blocks == 8 * 1024**2 // (2 * 2 * 16 * 2 * 16 * 4)
    assert len(runner.model_fingerprint) == 32


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.9, "top_p": 0.95, "seed": 3}])
def test_a_request_moved_at_any_position_ends_alike(
    runner: ModelRunner, tiny_model: TinyModel, sampling: dict[str, Any]
) -> None:
    ids = prompt(37)
    undisturbed = generate(runner, make_request(ids, **sampling), 12)
    elsewhere = make_runner(tiny_model("llama"), threads_per_engine=2)
    for delivered in (0, 1, 6, 11):
        request = make_request(ids + undisturbed[:delivered], num_prompt_tokens=37, **sampling)
        assert generate(elsewhere, request, 12 - delivered, chunk=11) == undisturbed


def test_results_come_in_the_order_of_the_runs(runner: ModelRunner) -> None:
    requests = [make_request(prompt(length, seed=length)) for length in (3, 30, 9)]
    alone = [generate(runner, make_request(request.token_ids), 1) for request in requests]
    runs = [Slot(runner, index).run(request, 0, request.num_tokens)
            for index, request in enumerate(requests)]  # fmt: skip
    results = runner.execute(SchedulerOutput(runs))
    assert [[result.token_id] for result in results] == alone


def test_more_rows_than_the_head_takes_at_once_are_all_sampled(runner: ModelRunner) -> None:
    requests = [make_request(prompt(2, seed=index)) for index in range(70)]
    run_of = [Slot(runner, index % 60).block_table[index // 60 :] for index in range(70)]
    runs = [replace(Slot(runner, 0).run(request, 0, 2), block_table=table)
            for request, table in zip(requests, run_of, strict=True)]  # fmt: skip
    tokens = [result.token_id for result in runner.execute(SchedulerOutput(runs))]
    assert tokens == [generate(runner, make_request(r.token_ids), 1)[0] for r in requests]


def test_weights_that_are_not_numbers_fail_one_row(runner: ModelRunner) -> None:
    poisoned, healthy = make_request(prompt(20, seed=1)), make_request(prompt(20, seed=2))
    slots = [Slot(runner, 1), Slot(runner, 2)]
    expected = generate(runner, make_request(healthy.token_ids), 1)
    for request, slot in zip((poisoned, healthy), slots, strict=True):
        runner.execute(SchedulerOutput([slot.run(request, 0, 19)]))
    keys = runner._model.storage.keys[0]
    keys[slots[0].block_table[0]] = torch.nan
    runs = [slot.run(request, 19, 20)
            for request, slot in zip((poisoned, healthy), slots, strict=True)]  # fmt: skip
    failed, served = runner.execute(SchedulerOutput(runs))
    keys[slots[0].block_table[0]] = 0.0
    assert "finite" in failed.error
    assert [served.token_id] == expected


def test_prompt_logprobs_cover_the_prompt_once_in_any_chunks(runner: ModelRunner) -> None:
    ids = prompt(100)
    request = make_request([*ids, 9, 9], num_prompt_tokens=100, prompt_logprobs=2)
    slot = Slot(runner, 0)
    logits = logits_of(runner, [slot.run(request, 0, 102)])
    parts: list[TokenLogprobs | None] = []
    for start, end in ((0, 30), (30, 99), (99, 102)):
        (result,) = runner.execute(SchedulerOutput([slot.run(request, start, end)]))
        parts.append(result.prompt_logprobs)
    assert parts[2] is None
    tensors = [as_tensors(part) for part in parts if part is not None]
    token_ids, values = (torch.cat(column) for column in zip(*tensors, strict=True))
    assert token_ids[:, 0].tolist() == ids[1:]
    expected = logits[:99].log_softmax(-1)
    torch.testing.assert_close(values, expected.gather(1, token_ids.long()))
    assert torch.equal(token_ids[:, 1:].long(), expected.topk(2).indices)


def test_the_model_may_be_asked_for_more_alternatives_than_there_are(runner: ModelRunner) -> None:
    request = make_request(prompt(5), logprobs=1000)
    (result,) = runner.execute(SchedulerOutput([Slot(runner, 0).run(request, 0, 5)]))
    assert result.logprobs is not None
    assert result.logprobs.width == 385


def test_prompt_logprobs_that_fail_end_their_request_alone(runner: ModelRunner) -> None:
    broken = make_request(prompt(8, seed=1), prompt_logprobs="all")
    healthy = make_request(prompt(9))
    expected = generate(runner, make_request(healthy.token_ids), 1)
    runs = [Slot(runner, 0).run(broken, 0, 8), Slot(runner, 1).run(healthy, 0, 9)]
    failed, served = runner.execute(SchedulerOutput(runs))
    assert failed.error.startswith("prompt_logprobs failed: ")
    assert [served.token_id] == expected


def test_a_fault_on_purpose_strikes_the_real_model_too(runner: ModelRunner) -> None:
    faulty = FaultyRunner(runner, [parse_fault("out-of-memory:prompt=7-7-9")])
    innocent, poison = make_request(prompt(9)), make_request([3, 7, 7, 9, 4])
    (served,) = faulty.submit(SchedulerOutput([Slot(runner, 0).run(innocent, 0, 9)])).result()
    assert [served.token_id] == generate(runner, make_request(innocent.token_ids), 1)
    with pytest.raises(MemoryError, match="prompt=7-7-9"):
        faulty.submit(SchedulerOutput([Slot(runner, 1).run(poison, 0, 5)])).result()
