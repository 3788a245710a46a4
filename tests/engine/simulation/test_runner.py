"""The simulated model in a real engine core: its pace, its sizes, its text."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.config import ClusterConfig, EngineConfig, ModelConfig, SimulationConfig
from cluster.errors import ConfigError
from cluster.wire.messages import AddRequest
from cluster.wire.sampling import SamplingParams
from engine.core import EngineCore
from engine.request import Request
from engine.scheduling.output import ScheduledRequest, SchedulerOutput
from engine.simulation.runner import SimulatedModelRunner, step_seconds

AT_ONCE = SimulationConfig(simulated_step_seconds=0.0, simulated_request_seconds=0.0)


def make_config(folder: Path, pace: SimulationConfig = AT_ONCE, **engine: Any) -> ClusterConfig:
    return ClusterConfig(
        model=ModelConfig(model=str(folder)),
        engine=EngineConfig(engine="simulated", **engine),
        simulation=pace,
    )


def run(num_tokens: int, first_position: int = 0, **sampling: Any) -> ScheduledRequest:
    token_ids = [5] * (first_position + num_tokens)
    request = Request("r", 0, 0, token_ids, len(token_ids), SamplingParams(**sampling), [])
    return ScheduledRequest(request, first_position, num_tokens, [])


def answer(config: ClusterConfig, output: list[int], **sampling: Any) -> list[int]:
    """What a fresh engine makes of a request that has `output` already."""
    runner = SimulatedModelRunner(config)
    core = EngineCore(
        config.engine, runner.num_blocks, runner.max_model_len, runner, runner.vocab_size
    )
    message = AddRequest(
        "r", 0, 1, 1, 0, list(range(20, 70)), output, [], SamplingParams(**sampling)
    )
    core.add_request(message, 0.0)
    token_ids = list(output)
    while core.has_work:
        work = core.begin_step(0.0)
        for outputs in core.finish_step(work, core.submit(work).result(), 1.0).values():
            for one in outputs:
                assert not one.error
                token_ids += one.token_ids
    core.check_invariants()
    return token_ids


def test_a_step_takes_what_the_pace_says() -> None:
    pace = SimulationConfig(
        simulated_step_seconds=1.0, simulated_request_seconds=0.1,
        simulated_kv_token_seconds=0.001, simulated_prefill_rate=50.0,
    )  # fmt: skip
    work = SchedulerOutput([run(1, first_position=99), run(1, first_position=199), run(25)])
    assert step_seconds(pace, work) == pytest.approx(1.0 + 0.2 + 0.3 + 0.5)


def test_the_time_of_its_own_work_is_part_of_the_step(model_folder: Path) -> None:
    pace = SimulationConfig(simulated_step_seconds=0.05, simulated_request_seconds=0.0)
    runner = SimulatedModelRunner(make_config(model_folder, pace))
    started = time.monotonic()
    runner.submit(SchedulerOutput([run(8, prompt_logprobs=200)])).result()
    assert 0.05 <= time.monotonic() - started < 0.2


def test_a_step_begins_when_the_one_before_it_ends(model_folder: Path) -> None:
    pace = SimulationConfig(simulated_step_seconds=0.05, simulated_request_seconds=0.0)
    runner = SimulatedModelRunner(make_config(model_folder, pace, async_scheduling=True))
    assert runner.overlaps_steps
    started = time.monotonic()
    outcomes = [runner.submit(SchedulerOutput([run(8)])) for _ in range(3)]
    assert time.monotonic() - started < 0.05
    for number, outcome in enumerate(outcomes, start=1):
        outcome.result()
        assert 0.05 * number <= time.monotonic() - started < 0.05 * number + 0.2


@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"temperature": 0.8, "seed": 9}])
def test_a_token_in_flight_counts_for_the_next_one(
    model_folder: Path, sampling: dict[str, Any]
) -> None:
    config = make_config(model_folder)
    request = run(50, **sampling).request
    runs = [ScheduledRequest(request, 0, 50, []), ScheduledRequest(request, 50, 1, [])]
    runner = SimulatedModelRunner(config)
    outcomes = [runner.submit(SchedulerOutput([one])) for one in runs]
    ahead = [outcome.result()[0].token_id for outcome in outcomes]
    again = run(50, **sampling).request
    for one, token_id in zip(runs, ahead, strict=True):
        [result] = (
            SimulatedModelRunner(config)
            .submit(SchedulerOutput([replace(one, request=again)]))
            .result()
        )
        assert token_id is not None
        assert result.token_id == token_id
        again.token_ids.append(token_id)


def test_sizes_follow_the_folder_and_the_settings(model_folder: Path) -> None:
    runner = SimulatedModelRunner(make_config(model_folder, kv_cache_memory="1MiB"))
    assert (runner.vocab_size, runner.max_model_len) == (300, 512)
    assert runner.num_blocks == 1024**2 // (2 * 2 * 16 * 2 * 16 * 2)
    assert runner.model_fingerprint.startswith("simulated")
    assert SimulatedModelRunner(make_config(model_folder)).num_blocks == 64 * 512 // 16
    small = SimulatedModelRunner(make_config(model_folder, kv_cache_memory="16KiB"))
    assert small.max_model_len == small.num_blocks * 16


def test_what_the_model_cannot_do_is_refused(model_folder: Path) -> None:
    config = ClusterConfig(model=ModelConfig(model=str(model_folder), max_model_len=1000))
    with pytest.raises(ConfigError, match="--max-model-len 1000"):
        SimulatedModelRunner(config)


@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"temperature": 0.8, "seed": 9}])
def test_a_request_moved_at_any_position_ends_alike(
    model_folder: Path, sampling: dict[str, Any]
) -> None:
    config = make_config(model_folder)
    whole = answer(config, [], max_tokens=10, **sampling)
    assert len(whole) == 10
    for delivered in range(1, 10):
        other = make_config(model_folder, max_num_batched_tokens=17, max_num_seqs=3)
        assert answer(other, whole[:delivered], max_tokens=10, **sampling) == whole


def test_a_request_that_cannot_be_sampled_fails_alone(model_folder: Path) -> None:
    runner = SimulatedModelRunner(make_config(model_folder))
    failed, served = runner.submit(
        SchedulerOutput([run(3, allowed_token_ids=[9], bad_words=[[9]]), run(4)])
    ).result()
    assert failed.error == "sampling failed: no token is left to choose from"
    assert served.token_id is not None


def test_nothing_of_it_needs_torch(model_folder: Path) -> None:
    code = (
        "import sys, engine.__main__, engine.simulation.runner\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
