"""CUDA graphs: decode steps recorded once for each padded batch size, and replayed afterwards.

A decode step computes so little that launching its kernels one by one takes longer than they do.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import torch

from engine.execution.causal_lm import CausalLM
from engine.execution.cuda.batch_buckets import bucket_for, decode_buckets
from engine.execution.cuda.flash_attention import FlashAttention
from engine.execution.cuda.kv_pages import PaddedKVStorage
from engine.execution.cuda.paged_tables import TabledStep
from engine.execution.cuda.static_batch import StaticBatch
from engine.execution.cuda.varlen_attention import VarlenAttention
from engine.execution.drawn_tokens import DrawnTokens
from engine.execution.paged_attention import AttentionBackend
from engine.execution.serving_model import ServingModel
from engine.scheduling.output import ScheduledRequest

_log = logging.getLogger(__name__)

Computation = Callable[[], torch.Tensor]


class GraphRecorder(Protocol):
    """What records a computation that reads its inputs from fixed addresses."""

    def record(self, compute: Computation) -> Computation:
        """What does the same again, with what the inputs hold by then, into the same tensor."""
        ...


class CudaGraphRecorder:
    """Records CUDA graphs that share one pool of memory: they are never replayed at once."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, compute: Computation) -> Computation:
        """See `GraphRecorder`. Raises RuntimeError for what needs the host in the middle of it."""
        compute()  # libraries set themselves up in a first call, which cannot be recorded
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            out = compute()

        def replay() -> torch.Tensor:
            graph.replay()
            return out

        return replay


class DecodeGraphs:
    """Computes the steps in which every run has one token, at most `max_num_seqs` of them."""

    @torch.inference_mode()
    def __init__(
        self, lm: CausalLM, attention: AttentionBackend, storage: PaddedKVStorage,
        max_num_seqs: int, max_model_len: int, recorder: GraphRecorder,
    ) -> None:  # fmt: skip
        self._buckets = decode_buckets(max_num_seqs)
        self._inputs = StaticBatch(self._buckets[-1], max_model_len, storage)
        self._replay: dict[int, Computation] = {}
        # The largest first: the others find room in the memory that it has taken.
        for size in reversed(self._buckets):
            batch, tables = self._inputs.head(size)
            step = TabledStep(batch, storage, attention, tables=tables)
            self._replay[size] = recorder.record(partial(lm.hidden_states, step))

    def accept(self, runs: Sequence[ScheduledRequest]) -> bool:
        """Whether this is a step that was recorded."""
        return len(runs) <= self._buckets[-1] and all(run.num_tokens == 1 for run in runs)

    @torch.inference_mode()
    def hidden_states(self, runs: Sequence[ScheduledRequest], drawn: DrawnTokens) -> torch.Tensor:
        """The last hidden state of each run, (runs, hidden), valid until the next call."""
        size = bucket_for(len(runs), self._buckets)
        self._inputs.fill(runs, size, drawn)
        return self._replay[size]()[: len(runs)]


def record_decode_graphs(model: ServingModel, max_num_seqs: int) -> DecodeGraphs | None:
    """The graphs of a model on a CUDA device; None where steps can only run kernel by kernel."""
    if not isinstance(model.attention, VarlenAttention | FlashAttention):
        return None
    assert isinstance(model.storage, PaddedKVStorage), "there is no block for padding"
    try:
        return DecodeGraphs(
            model.lm, model.attention, model.storage, max_num_seqs, model.max_model_len,
            CudaGraphRecorder(),
        )  # fmt: skip
    except RuntimeError as error:
        # Some models look at a tensor in the middle, as mixtures of experts do.
        _log.warning("decode steps run without CUDA graphs, which is slower: %s", error)
        return None
