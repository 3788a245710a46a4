"""What a step takes outside of the forward pass: the scheduler before it, and the books after it."""

import time
from pathlib import Path
from statistics import median

import msgspec

from cluster.config import ClusterConfig, EngineConfig, ModelConfig, SimulationConfig
from cluster.wire.block_hash import hash_blocks
from cluster.wire.messages import AddRequest
from cluster.wire.sampling import SamplingParams
from engine.core import EngineCore
from engine.scheduling.output import ModelRunner, SchedulerOutput
from engine.simulation.runner import SimulatedModelRunner
from loadtests.engine_lab.decode import random_token_ids
from loadtests.engine_lab.options import (
    ADMISSION_BLOCKS,
    OVERHEAD_BATCH,
    OVERHEAD_SLACK_TOKENS,
    SIMULATED_BATCH,
    SIMULATED_CONTEXT,
    EngineLoad,
)


class Overhead(msgspec.Struct, frozen=True):
    """Medians over decode steps of a full batch."""

    runner: str
    """What computes: model or simulated."""
    batch: int
    step_seconds: float
    outside_seconds: float
    """Of the engine's thread, outside of the runner."""

    @property
    def share(self) -> float:
        """The part of a step that is not the runner's."""
        return self.outside_seconds / self.step_seconds


class _Loop:
    """The busy loop of an engine, without its threads and sockets."""

    def __init__(self, core: EngineCore) -> None:
        self._core = core

    def step(self) -> tuple[SchedulerOutput, float, float]:
        """What was computed, the seconds of the step, and those outside of the runner.

        Outside is this thread's own time: others may use the machine too.
        """
        started_at, thread_started_at = time.perf_counter(), time.thread_time()
        work = self._core.begin_step(time.monotonic())
        self._core.predict_seconds(work)
        outside = time.thread_time() - thread_started_at
        results = self._core.submit(work).result()
        thread_started_at = time.thread_time()
        self._core.finish_step(work, results, time.monotonic())
        self._core.stats()
        self._core.take_block_events()
        outside += time.thread_time() - thread_started_at
        return work, time.perf_counter() - started_at, outside

    def decode_together(self, batch: int) -> None:
        """Step until every request decodes, which is soon: a step may compute all prompts."""
        for _ in range(OVERHEAD_SLACK_TOKENS):
            runs = self.step()[0].scheduled
            if len(runs) == batch and all(run.num_tokens == 1 for run in runs):
                return
        raise AssertionError(f"{batch} requests never decode together")


def model_overhead(
    config: ClusterConfig, runner: ModelRunner, num_blocks: int, vocab_size: int, load: EngineLoad
) -> Overhead:
    """Of the real model, under the load of its shortest context."""
    assert config.model.max_model_len is not None, "the room for the load is worked out before"
    context = min(load.contexts)
    settings = _settings(config.engine, OVERHEAD_BATCH, context)
    core = EngineCore(settings, num_blocks, config.model.max_model_len, runner, vocab_size)
    _add_requests(core, settings, context, vocab_size, load)
    return _overhead("model", core, OVERHEAD_BATCH, load)


def simulated_overhead(model: Path, load: EngineLoad) -> Overhead:
    """Of a runner whose steps take no time. Raises ModelError where the folder has no tokenizer."""
    longest = SIMULATED_CONTEXT + OVERHEAD_SLACK_TOKENS + load.measured_steps
    # Its cache takes no memory.
    settings = _settings(
        EngineConfig(kv_cache_memory="1000GiB"), SIMULATED_BATCH, SIMULATED_CONTEXT
    )
    pace = SimulationConfig(
        simulated_step_seconds=0.0, simulated_request_seconds=0.0,
        simulated_kv_token_seconds=0.0, simulated_prefill_rate=1e15,
    )  # fmt: skip
    named = ModelConfig(model=str(model), max_model_len=longest)
    runner = SimulatedModelRunner(ClusterConfig(model=named, engine=settings, simulation=pace))
    num_blocks = SIMULATED_BATCH * (-(-longest // settings.block_size) + ADMISSION_BLOCKS)
    core = EngineCore(settings, num_blocks, longest, runner, runner.vocab_size)
    _add_requests(core, settings, SIMULATED_CONTEXT, runner.vocab_size, load)
    return _overhead("simulated", core, SIMULATED_BATCH, load)


def _settings(engine: EngineConfig, batch: int, context: int) -> EngineConfig:
    """All prompts in one step: how long it takes until all decode is not measured."""
    return msgspec.structs.replace(
        engine,
        max_num_seqs=batch,
        max_num_batched_tokens=batch * context,
        prefill_chunk_while_decoding=batch * context,
    )


def _add_requests(
    core: EngineCore, settings: EngineConfig, context: int, vocab_size: int, load: EngineLoad
) -> None:
    sampling = SamplingParams(
        max_tokens=OVERHEAD_SLACK_TOKENS + load.measured_steps, temperature=0.0
    )
    for index in range(settings.max_num_seqs):
        prompt = random_token_ids(context, vocab_size, seed=index)
        message = AddRequest(
            request_id=f"overhead-{index}", frontend_index=0, frontend_incarnation=1,
            dispatch_seq=index + 1, attempt=0, prompt_token_ids=prompt, output_token_ids=[],
            block_hashes=hash_blocks(prompt, settings.block_size), sampling=sampling,
        )  # fmt: skip
        refusal = core.add_request(message, time.monotonic())
        assert refusal is None, refusal


def _overhead(runner: str, core: EngineCore, batch: int, load: EngineLoad) -> Overhead:
    loop = _Loop(core)
    loop.decode_together(batch)
    steps = [loop.step()[1:] for _ in range(load.measured_steps)]
    return Overhead(
        runner=runner,
        batch=batch,
        step_seconds=median(seconds for seconds, _ in steps),
        outside_seconds=median(outside for _, outside in steps),
    )
