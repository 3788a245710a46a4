"""What a device has for the KV cache, and the steps that it is measured with."""

import torch

from cluster.config import EngineConfig
from engine.execution.cuda.gather_attention import GatherAttention
from engine.execution.cuda.memory_profile import (
    cache_bytes,
    compute_largest_steps,
    largest_steps,
)
from engine.execution.paged_attention import PagedStep
from tests.engine.execution.conftest import TinyModel
from tests.support.serving import make_runner

GIB = 1024**3


def test_the_cache_gets_what_the_engine_may_use_and_nobody_does() -> None:
    assert cache_bytes(80 * GIB, 0.9, peak_bytes=20 * GIB, other_bytes=2 * GIB) == 50 * GIB


def test_a_full_device_leaves_nothing() -> None:
    assert cache_bytes(80 * GIB, 0.5, peak_bytes=39 * GIB, other_bytes=2 * GIB) == 0


def test_the_largest_steps_spend_the_budget_at_the_longest_context() -> None:
    config = EngineConfig(max_num_batched_tokens=700, max_num_seqs=40)
    chunks, decodes = largest_steps(config, max_model_len=300)
    assert [(run.first_position, run.num_tokens) for run in chunks] == [
        (0, 300), (0, 300), (200, 100),
    ]  # fmt: skip
    assert [(run.first_position, run.num_tokens) for run in decodes] == [(299, 1)] * 40
    assert all(len(run.block_table) == 19 for run in [*chunks, *decodes])


def test_the_largest_steps_have_no_more_runs_than_the_engine() -> None:
    config = EngineConfig(max_num_batched_tokens=8, max_num_seqs=2)
    chunks, decodes = largest_steps(config, max_model_len=3)
    assert [run.num_tokens for run in chunks] == [3, 3]
    assert len(decodes) == 2
    config = EngineConfig(max_num_batched_tokens=8, max_num_seqs=64)
    assert len(largest_steps(config, max_model_len=3)[1]) == 8


def test_the_largest_steps_are_computed_on_one_block(tiny_model: TinyModel) -> None:
    model = make_runner(tiny_model("llama"), "torch")._model
    seen: list[tuple[int, int]] = []

    class Watching(GatherAttention):
        def attend(
            self, step: PagedStep, layer: int, query: torch.Tensor, key: torch.Tensor,
            value: torch.Tensor, scale: float,
        ) -> torch.Tensor:  # fmt: skip
            seen.append((query.shape[1], len(step.storage.keys[0])))
            return super().attend(step, layer, query, key, value, scale)

    config = EngineConfig(max_num_batched_tokens=48, max_num_seqs=5)
    compute_largest_steps(
        config, model.lm, model.info, Watching(), torch.float32, 512, model.device
    )
    assert seen == [(48, 1)] * 2 + [(5, 1)] * 2
