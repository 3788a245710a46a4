"""Answers are the same whether a step waits for the one before or is submitted behind it."""

from collections import deque
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.config import EngineConfig
from cluster.wire.block_hash import hash_blocks
from cluster.wire.messages import AddRequest, EngineCoreOutput
from cluster.wire.sampling import Pooling, PoolingParams, SamplingParams
from engine.core import EngineCore
from engine.execution.cuda.device_sampler import DeviceSampler
from engine.execution.cuda.gather_attention import GatherAttention
from engine.execution.runner import ModelRunner
from engine.execution.step_queue import DeviceQueue, ThreadQueue
from engine.scheduling.output import SchedulerOutput
from tests.engine.execution.conftest import TinyModel
from tests.engine.execution.cuda.test_decode_graphs import ComputingAgain, graphs_of, padded_runner
from tests.engine.execution.test_families import prompt
from tests.support.serving import Slot, generate, make_request, make_runner

KINDS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "stopped": {"stop_token_ids": list(range(0, 384, 3))},
    "seeded": {"temperature": 0.9, "seed": 5},
    "narrowed": {"temperature": 1.2, "top_k": 40, "top_p": 0.9, "min_p": 0.01, "seed": 6},
    "logprobs": {"temperature": 0.9, "seed": 7, "logprobs": 3},
    "prompt_logprobs": {"prompt_logprobs": 2},
    "penalties": {"presence_penalty": 1.5, "frequency_penalty": 1.0, "repetition_penalty": 1.2},
    "biased": {"logit_bias": [(77, 4.0)], "temperature": 0.5},
    "bad words": {"bad_words": [[5], [9, 11]]},
    "least length": {"stop_token_ids": list(range(0, 384, 2)), "min_tokens": 4},
    "one token": {"max_tokens": 1},
    "mean": {"pooling": PoolingParams(Pooling.MEAN)},
    "last": {"pooling": PoolingParams(Pooling.LAST)},
}


def messages() -> list[AddRequest]:
    """One request of each kind, with prompts of many lengths that begin alike."""
    added = []
    for index, (name, sampling) in enumerate(KINDS.items()):
        prompt_token_ids = prompt(8, seed=1) + prompt(3 + 9 * index, seed=index)
        added.append(
            AddRequest(
                name,
                0,
                1,
                index + 1,
                0,
                prompt_token_ids,
                [],
                hash_blocks(prompt_token_ids, 16),
                SamplingParams(**({"temperature": 0.0, "max_tokens": 12} | sampling)),
            )
        )
    return added


def answers(runner: ModelRunner, max_in_flight: int) -> dict[str, list[EngineCoreOutput]]:
    """What an engine core makes of all requests, of which some come while others are computed."""
    config = EngineConfig(max_num_batched_tokens=64, max_num_seqs=8)
    core = EngineCore(config, runner.num_blocks, runner.max_model_len, runner, runner.vocab_size)
    outputs: dict[str, list[EngineCoreOutput]] = {name: [] for name in KINDS}
    in_flight: deque[tuple[SchedulerOutput, Any]] = deque()
    coming = deque(messages())
    while coming or core.has_work:
        for _ in range(min(2, len(coming))):
            assert core.add_request(coming.popleft(), 0.0) is None
        work = core.begin_step(0.0)
        if work.scheduled:
            in_flight.append((work, core.submit(work)))
        if not work.scheduled or len(in_flight) == max_in_flight:
            work, outcome = in_flight.popleft()
            for output in core.finish_step(work, outcome.result(), 1.0).get(0, []):
                outputs[output.request_id].append(output)
    core.check_invariants()
    assert core.stats().used_blocks == 0
    return outputs


def tokens_of(outputs: dict[str, list[EngineCoreOutput]]) -> dict[str, list[int]]:
    return {name: [i for o in some for i in o.token_ids] for name, some in outputs.items()}


@pytest.fixture(scope="module")
def on_a_thread(tiny_model: TinyModel) -> ModelRunner:
    return make_runner(tiny_model("llama"), async_scheduling=True)


@pytest.fixture(scope="module")
def as_on_a_device(tiny_model: TinyModel) -> ModelRunner:
    """All that a CUDA device has, on the CPU: replayed decodes, draws without the host."""
    runner = padded_runner(tiny_model, GatherAttention())
    runner._sampler = DeviceSampler()
    runner._decode_graphs = graphs_of(runner._model, ComputingAgain())
    return runner


def test_on_a_thread_every_kind_of_request_is_answered_alike(
    on_a_thread: ModelRunner, tiny_model: TinyModel
) -> None:
    outputs = answers(on_a_thread, max_in_flight=2)
    assert outputs == answers(make_runner(tiny_model("llama")), max_in_flight=1)
    assert len(outputs["stopped"]) < 12, "nothing is ever superfluous here"


def test_as_on_a_device_every_kind_of_request_gets_the_same_tokens(
    as_on_a_device: ModelRunner, tiny_model: TinyModel
) -> None:
    outputs = answers(as_on_a_device, max_in_flight=2)
    plain = answers(padded_runner(tiny_model, GatherAttention()), max_in_flight=1)
    assert tokens_of(outputs) == tokens_of(plain)
    assert all(some[-1].finish_reason is not None for some in outputs.values())


def test_on_a_cpu_steps_overlap_where_that_is_asked_for(
    on_a_thread: ModelRunner, as_on_a_device: ModelRunner
) -> None:
    assert on_a_thread.overlaps_steps
    assert isinstance(on_a_thread._queue, ThreadQueue)
    assert not as_on_a_device.overlaps_steps
    assert isinstance(as_on_a_device._queue, DeviceQueue)


@pytest.mark.parametrize("name", ["on_a_thread", "as_on_a_device"])
def test_a_token_that_no_host_knows_is_computed_next(
    name: str, request: pytest.FixtureRequest, tiny_model: TinyModel
) -> None:
    runner = request.getfixturevalue(name)
    seeded: dict[str, Any] = {"temperature": 0.9, "seed": 3}
    requests = [make_request(prompt(20, seed=seed), **seeded) for seed in (1, 2)]
    slots = [Slot(runner, 0), Slot(runner, 1)]
    runs = [slot.run(one, 0, 20) for slot, one in zip(slots, requests, strict=True)]
    first, second = (replace(run, first_position=20, num_tokens=1) for run in runs)
    steps = [runs, [second, first], [replace(first, first_position=21)]]
    outcomes = [runner.submit(SchedulerOutput(step)) for step in steps]
    [[a, b], [c, d], [e]] = [outcome.result() for outcome in outcomes]
    plain = make_runner(tiny_model("llama"))
    expected = [generate(plain, make_request(one.token_ids, **seeded), 3) for one in requests]
    assert [a.token_id, d.token_id, e.token_id] == expected[0]
    assert [b.token_id, c.token_id] == expected[1][:2]


def test_an_error_of_a_step_on_a_thread_is_raised_where_it_is_waited_for(
    on_a_thread: ModelRunner,
) -> None:
    stranger = make_request(prompt(5))
    run = replace(Slot(on_a_thread, 0).run(stranger, 0, 5), first_position=5, num_tokens=1)
    outcome = on_a_thread.submit(SchedulerOutput([run]))
    with pytest.raises(KeyError):  # nothing was drawn for it
        outcome.result()
