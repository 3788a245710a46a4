"""One run of everything: the machine, the engine, and transformers in turns with it."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import reduce
from typing import Literal, NamedTuple

import torch

from cluster.config import ClusterConfig, EngineConfig
from engine.execution.runner import ModelRunner
from loadtests.engine_lab.cost import MachineLimits, ModelCost, StepWork, floor_seconds
from loadtests.engine_lab.decode import Contexts, PrefillLoad
from loadtests.engine_lab.engine_config import engine_config, model_cost
from loadtests.engine_lab.limits import measure_limits
from loadtests.engine_lab.lines import lines_of
from loadtests.engine_lab.options import EngineLoad, EngineTarget
from loadtests.engine_lab.overhead import model_overhead, simulated_overhead
from loadtests.engine_lab.processor_watch import ProcessorSeconds
from loadtests.engine_lab.reference_process import ReferenceProcess, reference_process
from loadtests.engine_lab.reference_task import DecodeTask, PrefillTask
from loadtests.engine_lab.report import EngineReport
from loadtests.engine_lab.row import Row
from loadtests.engine_lab.turns import in_turns

Say = Callable[[str], None]
"""Told what is measured next."""


class _Timing(NamedTuple):
    """A row before it is known what the machine's limits are."""

    kind: Literal["decode", "prefill"]
    batch: int
    context: int
    step_seconds: list[float]
    reference_step_seconds: list[float]


def measure_engine(
    target: EngineTarget, load: EngineLoad, has_reference: bool, say: Say
) -> EngineReport:
    """Minutes of work. Raises ModelError or ConfigError for a folder that cannot be measured."""
    began = ProcessorSeconds.now()
    torch.set_num_threads(target.threads)
    device = torch.device(target.device)
    cost = model_cost(target)
    say("the scheduler over a simulated model")
    with _frozen():
        overheads = [simulated_overhead(target.model, load)]
    say("loading the model")
    num_blocks = load.num_blocks(EngineConfig().block_size)
    config = engine_config(target, load.longest_sequence, num_blocks)
    runner = ModelRunner(config)
    with reference_process(target) if has_reference else nullcontext() as reference, _frozen():
        rows = list(_rows(_timings(config, runner, load, reference, say), load, cost, device))
        say("the scheduler over the model")
        overheads.append(model_overhead(config, runner, runner.num_blocks, runner.vocab_size, load))
    return EngineReport(
        model=target.model.name,
        device=target.device,
        threads=target.threads,
        quantization=target.quantization,
        limits=reduce(MachineLimits.best_of, (row.limits for row in rows)),
        cost=cost,
        rows=rows,
        overheads=overheads,
        lines=lines_of(rows, overheads, target.device),
        others_share=began.others_share_until(ProcessorSeconds.now()),
    )


@contextmanager
def _frozen() -> Iterator[None]:
    """What is loaded is not searched for garbage while steps are timed: an engine does the same."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _timings(
    config: ClusterConfig, runner: ModelRunner, load: EngineLoad,
    reference: ReferenceProcess | None, say: Say,
) -> Iterator[_Timing]:  # fmt: skip
    block_size = config.engine.block_size
    yield _prefill_timing(
        PrefillLoad(runner, block_size, runner.vocab_size, load.prefill_tokens),
        load, reference, say,
    )  # fmt: skip
    contexts = Contexts(
        runner, runner.num_blocks, block_size, runner.vocab_size,
        max(load.batches), load.longest_context,
    )  # fmt: skip
    for context in sorted(load.contexts):
        # The prefill of long contexts would take transformers many minutes.
        is_compared = context == min(load.contexts)
        for batch in sorted(load.batches):
            yield _decode_timing(
                contexts, batch, context, load, reference if is_compared else None, say
            )


def _prefill_timing(
    prefill: PrefillLoad, load: EngineLoad, reference: ReferenceProcess | None, say: Say
) -> _Timing:
    say(f"prefill, {load.prefill_tokens} tokens")

    def theirs(repeats: int) -> list[float]:
        assert reference is not None, "it is measured only where it is there"
        return reference.measure(PrefillTask(load.prefill_tokens, repeats))

    ours, reference_seconds = in_turns(
        prefill.measure, None if reference is None else theirs, load.repeats
    )
    return _Timing("prefill", 1, load.prefill_tokens, ours, reference_seconds)


def _decode_timing(
    contexts: Contexts, batch: int, context: int, load: EngineLoad,
    reference: ReferenceProcess | None, say: Say,
) -> _Timing:  # fmt: skip
    say(f"decode, batch {batch}, context {context}")
    decode = contexts.decode_load(batch, context)

    def theirs(repeats: int) -> list[float]:
        assert reference is not None, "it is measured only where it is there"
        return reference.measure(DecodeTask(batch, context, repeats, load.steps))

    ours, reference_seconds = in_turns(
        lambda repeats: decode.measure(repeats, load.steps),
        None if reference is None else theirs,
        load.repeats,
    )
    return _Timing("decode", batch, context, ours, reference_seconds)


def _rows(
    timings: Iterator[_Timing], load: EngineLoad, cost: ModelCost, device: torch.device
) -> Iterator[Row]:
    """A row for each timing, which is measured when it is asked for: between two looks at the limits.

    Virtual machines share their memory with others: within minutes it may be twice as fast.
    """
    before = measure_limits(device)
    for timing in timings:
        after = measure_limits(device)
        yield _row(timing, load, cost, before.best_of(after))
        before = after


def _row(timing: _Timing, load: EngineLoad, cost: ModelCost, limits: MachineLimits) -> Row:
    if timing.kind == "prefill":
        work = StepWork.prefill(timing.context)
    else:  # of the step in the middle
        work = StepWork.decode(timing.batch, timing.context + load.growth // 2)
    return Row(*timing, limits=limits, floor_seconds=floor_seconds(work, cost, limits))
