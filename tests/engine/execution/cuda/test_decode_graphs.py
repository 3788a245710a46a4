"""Padded decode steps over static inputs give what the same steps give when they are built anew.

Recording is stood in for by computing again, which reads the same static inputs.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from engine.execution.cuda.decode_graphs import Computation, DecodeGraphs, record_decode_graphs
from engine.execution.cuda.gather_attention import GatherAttention
from engine.execution.cuda.kv_pages import PaddedKVStorage
from engine.execution.drawn_tokens import NOTHING_DRAWN
from engine.execution.input_batch import InputBatch
from engine.execution.paged_attention import AttentionBackend, PagedStep, TorchAttention
from engine.execution.runner import ModelRunner
from engine.execution.serving_model import ServingModel
from engine.request import Request
from engine.scheduling.output import ScheduledRequest, SchedulerOutput
from tests.engine.execution.conftest import TinyModel
from tests.engine.execution.cuda.test_attention_backends import BACKENDS
from tests.engine.execution.test_families import prompt
from tests.support.serving import Slot, generate, make_request, make_runner
from tests.support.tiny_model import FAMILIES

LENGTHS = (5, 70, 131, 17, 32, 1)


class ComputingAgain:
    """A recorder that counts what is replayed."""

    def __init__(self) -> None:
        self.recorded = 0
        self.replayed = 0

    def record(self, compute: Computation) -> Computation:
        self.recorded += 1
        compute()

        def replay() -> torch.Tensor:
            self.replayed += 1
            return compute()

        return replay


def padded_runner(
    tiny_model: TinyModel, attention: AttentionBackend, family: str = "llama", block_size: int = 16
) -> ModelRunner:
    """A runner on the CPU whose cache has a spare block, as on a device."""
    runner = make_runner(
        tiny_model(family), "torch", block_size=block_size, kv_cache_memory="32MiB"
    )
    model, storage = runner._model, runner._model.storage
    padded = PaddedKVStorage(
        model.info, storage.num_blocks, storage.block_size, storage.dtype, model.device
    )
    runner._model = replace(model, attention=attention, storage=padded)
    return runner


def graphs_of(model: ServingModel, recorder: ComputingAgain) -> DecodeGraphs:
    assert isinstance(model.storage, PaddedKVStorage)
    return DecodeGraphs(
        model.lm, model.attention, model.storage, max_num_seqs=8,
        max_model_len=model.max_model_len, recorder=recorder,
    )  # fmt: skip


@torch.inference_mode()
def hidden_of(model: ServingModel, runs: Sequence[ScheduledRequest]) -> torch.Tensor:
    batch = InputBatch.build(runs, model.storage.block_size, model.device)
    return model.lm.hidden_states(PagedStep(batch, model.storage, TorchAttention()))


def prefilled(runner: ModelRunner) -> list[ScheduledRequest]:
    """Decode runs of requests whose earlier tokens are in the cache."""
    requests = [make_request(prompt(length, seed=length)) for length in LENGTHS]
    slots = [Slot(runner, index) for index in range(len(requests))]
    places = list(zip(slots, requests, strict=True))
    hidden_of(runner._model, [slot.run(r, 0, r.num_tokens - 1) for slot, r in places[:-1]])
    return [slot.run(r, r.num_tokens - 1, r.num_tokens) for slot, r in places]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_padded_decodes_equal_those_computed_alone(
    family: str, name: str, tiny_model: TinyModel
) -> None:
    make_backend, block_size = BACKENDS[name]
    runner = padded_runner(tiny_model, make_backend(), family, max(16, block_size))
    runs = prefilled(runner)
    graphs = graphs_of(runner._model, ComputingAgain())
    for size in (6, 3, 1, 5):  # a bucket is used again by a smaller batch, and by a larger one
        expected = hidden_of(runner._model, runs[:size])
        hidden = graphs.hidden_states(runs[:size], NOTHING_DRAWN)
        torch.testing.assert_close(hidden, expected, rtol=1e-4, atol=1e-4)


def test_padding_touches_no_block_that_is_handed_out(tiny_model: TinyModel) -> None:
    runner = padded_runner(tiny_model, GatherAttention())
    runs = prefilled(runner)
    graphs = graphs_of(runner._model, ComputingAgain())
    storage = runner._model.storage
    caches = [*storage.keys, *storage.values]
    for cache in caches:
        cache[storage.num_blocks] = 9.0
    before = [cache.clone() for cache in caches]
    graphs.hidden_states(runs[:5], NOTHING_DRAWN)
    for cache, old in zip(caches, before, strict=True):
        changed = (cache != old).any(dim=-1).any(dim=-1)[: storage.num_blocks].nonzero()
        written = {(run.block_table[run.first_position // 16], run.first_position % 16)
                   for run in runs[:5]}  # fmt: skip
        assert set(map(tuple, changed.tolist())) == written
        assert not cache[storage.num_blocks, 0].eq(9.0).any()


def test_every_bucket_is_recorded_once_at_the_start(tiny_model: TinyModel) -> None:
    runner, recorder = padded_runner(tiny_model, GatherAttention()), ComputingAgain()
    graphs = graphs_of(runner._model, recorder)
    assert recorder.recorded == 4
    graphs.hidden_states(prefilled(runner), NOTHING_DRAWN)
    assert (recorder.recorded, recorder.replayed) == (4, 1)


def test_only_decodes_that_fit_are_accepted(tiny_model: TinyModel) -> None:
    runner = padded_runner(tiny_model, GatherAttention())
    graphs = graphs_of(runner._model, ComputingAgain())
    decode = Slot(runner, 0).run(make_request(prompt(9)), 8, 9)
    chunk = Slot(runner, 1).run(make_request(prompt(9)), 7, 9)
    assert graphs.accept([decode] * 8)
    assert not graphs.accept([decode] * 9)
    assert not graphs.accept([decode, chunk])


def test_a_runner_replays_decodes_and_computes_the_rest(tiny_model: TinyModel) -> None:
    plain = make_runner(tiny_model("llama"), "torch")
    requests = [prompt(length, seed=length) for length in (3, 40, 18)]
    expected = [generate(plain, make_request(ids), 9) for ids in requests]
    runner, recorder = padded_runner(tiny_model, GatherAttention()), ComputingAgain()
    runner._decode_graphs = graphs_of(runner._model, recorder)
    served = [make_request(ids) for ids in requests]
    for _ in range(9):
        step(runner, served)
    assert [request.output_token_ids for request in served] == expected
    assert recorder.replayed == 8
    late = make_request(requests[1])
    step(runner, [*served, late])
    assert late.output_token_ids == expected[1][:1]
    assert recorder.replayed == 8


def step(runner: ModelRunner, requests: Sequence[Request]) -> None:
    """One step in which each request computes all that it has to."""
    runs = [Slot(runner, index).run(request, request.num_computed_tokens, request.num_tokens)
            for index, request in enumerate(requests)]  # fmt: skip
    for request, result in zip(requests, runner.execute(SchedulerOutput(runs)), strict=True):
        assert result.token_id is not None, result.error
        request.num_computed_tokens = request.num_tokens
        request.token_ids.append(result.token_id)


def test_nothing_is_recorded_on_a_cpu(tiny_model: TinyModel) -> None:
    assert record_decode_graphs(make_runner(tiny_model("llama"), "torch")._model, 8) is None
