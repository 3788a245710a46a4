"""The steps that the engine benchmark times are right ones: tokens, room, and the reference's."""

import io
from pathlib import Path

import msgspec
import pytest
import torch

from cluster.errors import ModelError, StartupError
from engine.execution.runner import ModelRunner
from loadtests.engine_lab.decode import Contexts, PrefillLoad
from loadtests.engine_lab.engine_config import engine_config, model_cost
from loadtests.engine_lab.limits import measure_limits
from loadtests.engine_lab.options import OVERHEAD_BATCH, SIMULATED_BATCH, EngineLoad, EngineTarget
from loadtests.engine_lab.overhead import model_overhead, simulated_overhead
from loadtests.engine_lab.reference import ReferenceModel, answer_tasks, series_seconds
from loadtests.engine_lab.reference_process import reference_process
from loadtests.engine_lab.reference_task import DecodeTask, PrefillTask
from tests.support.serving import generate, make_request, make_runner
from tests.support.tiny_model import make_tiny_model

LOAD = EngineLoad(batches=(1, 3), contexts=(20, 50), prefill_tokens=40, repeats=2, steps=2)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def runner(folder: Path) -> ModelRunner:
    target = EngineTarget(folder, "cpu", threads=1)
    return ModelRunner(engine_config(target, LOAD.longest_sequence, LOAD.num_blocks(16)))


def test_sequences_go_on_as_they_would_alone_whatever_was_measured_before(
    runner: ModelRunner, folder: Path
) -> None:
    elsewhere = make_runner(folder, kv_cache_dtype="auto")
    held = Contexts(runner, runner.num_blocks, 16, runner.vocab_size, 3, LOAD.longest_context)
    for batch, context in ((1, 20), (3, 20), (3, 50), (1, 50), (2, 20), (3, 50)):
        load = held.decode_load(batch, context)
        for _ in range(2):
            assert len(load.measure(1, 2)) == 1
        prompts = [request.token_ids[:context] for request in load.requests]
        assert len(set(map(tuple, prompts))) == batch
        answers = [request.token_ids[context:] for request in load.requests]
        assert answers == [generate(elsewhere, make_request(prompt), 8) for prompt in prompts]


def test_a_load_has_the_room_that_its_longest_sequences_need() -> None:
    load = EngineLoad(batches=(1, 32), contexts=(256, 1024), repeats=5, steps=8)
    assert load.growth == 45
    assert load.num_blocks(16) >= 32 * -(-(1024 + 45) // 16)
    assert (
        EngineLoad(batches=(1,), contexts=(16,)).num_blocks(16) >= OVERHEAD_BATCH * (16 + 40) / 16
    )
    assert EngineLoad(contexts=(16,), prefill_tokens=2000).longest_sequence > 2000


def test_no_repeats_compute_nothing(runner: ModelRunner) -> None:
    held = Contexts(runner, runner.num_blocks, 16, runner.vocab_size, 1, LOAD.longest_context)
    load = held.decode_load(1, 20)
    assert load.measure(0, 5) == []
    assert load.requests[0].num_tokens == 20
    assert PrefillLoad(runner, 16, runner.vocab_size, 40).measure(0) == []


def test_a_prompt_is_computed_as_often_as_it_is_asked_for(runner: ModelRunner) -> None:
    seconds = PrefillLoad(runner, 16, runner.vocab_size, 40).measure(3)
    assert len(seconds) == 3
    assert min(seconds) > 0


def test_the_scheduler_is_a_part_of_each_step_with_the_model_and_without(
    runner: ModelRunner, folder: Path
) -> None:
    config = engine_config(
        EngineTarget(folder, "cpu", threads=1), LOAD.longest_sequence, LOAD.num_blocks(16)
    )
    model = model_overhead(config, runner, runner.num_blocks, runner.vocab_size, LOAD)
    simulated = simulated_overhead(folder, LOAD)
    assert (model.batch, simulated.batch) == (OVERHEAD_BATCH, SIMULATED_BATCH)
    for overhead in (model, simulated):
        assert 0 < overhead.outside_seconds < overhead.step_seconds
        assert 0 < overhead.share < 1


def test_the_simulated_scheduler_needs_a_tokenizer(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path, tokenizer=False)
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        simulated_overhead(folder, LOAD)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_what_a_model_costs_is_counted_on_its_matrices(family: str, tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path, family, tokenizer=False)  # the head of one is tied
    cost = model_cost(EngineTarget(folder, "cpu", threads=1))
    attention = 64 * (64 + 32 + 32 + 64)
    assert cost.body_weights == 2 * (attention + 3 * 64 * 96)
    assert cost.head_weights == 384 * 64
    assert cost.weight_bytes == 2
    assert cost.kv_bytes_per_token == 2 * 2 * (2 * 16) * 2  # float16
    assert cost.attention_flops_per_pair == 2 * 4 * (4 * 16)


def test_a_machine_has_limits() -> None:
    limits = measure_limits(CPU)
    assert 1e8 < limits.read_bytes_per_second < 1e13
    assert 1e8 < limits.flops_per_second < 1e15


def test_a_series_lasts_from_the_token_before_it_to_its_last() -> None:
    assert series_seconds([1.0, 2.0, 3.0, 5.0, 7.0], 2) == [1.0, 2.0]
    assert series_seconds([1.0, 2.0, 3.0, 5.0], 3) == [pytest.approx(4 / 3)]
    assert series_seconds([1.0], 3) == []


def test_the_reference_answers_each_task_with_its_repeats(folder: Path) -> None:
    tasks = [DecodeTask(batch=2, context=20, repeats=3, steps=2), PrefillTask(40, repeats=2)]
    out = io.BytesIO()
    reference = ReferenceModel(folder, "float32", CPU)
    answer_tasks(reference, [msgspec.json.encode(task) + b"\n" for task in tasks], out)
    loaded, decode, prefill = map(msgspec.json.decode, out.getvalue().splitlines())
    assert (loaded, len(decode), len(prefill)) == ([], 3, 2)
    assert min(decode + prefill) > 0


def test_a_reference_that_does_not_come_up_is_said_in_words(tmp_path: Path) -> None:
    target = EngineTarget(tmp_path, "cpu", threads=1)
    with pytest.raises(StartupError, match="ended"), reference_process(target):
        pass
