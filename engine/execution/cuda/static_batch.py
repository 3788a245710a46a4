"""The inputs of decode steps at addresses that never change, which recorded graphs read from."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from msgspec import structs

from engine.execution.cuda.kv_pages import PaddedKVStorage
from engine.execution.cuda.paged_tables import PagedTables
from engine.execution.cuda.staging import copy_into
from engine.execution.drawn_tokens import DrawnTokens
from engine.execution.input_batch import InputBatch
from engine.execution.trial_run import trial_run
from engine.scheduling.output import ScheduledRequest

_CPU = torch.device("cpu")


class StaticBatch:
    """Up to `size` runs of one token each, padded with rows that live in the spare block."""

    def __init__(self, size: int, max_model_len: int, storage: PaddedKVStorage) -> None:
        self._block_size = storage.block_size
        self._columns = -(-max_model_len // storage.block_size)
        padding = trial_run(1, storage.block_size)
        self._padding = structs.replace(padding, block_table=[storage.spare_block])
        device = storage.keys[0].device
        batch, tables = self._on_host([], size)
        self._batch = replace(
            batch,
            token_ids=batch.token_ids.to(device),
            position_ids=batch.position_ids.to(device),
        )
        # Kernels size their work by this limit when they are recorded.
        self._tables = replace(
            tables.to(device), max_context_tokens=self._columns * self._block_size
        )

    def head(self, size: int) -> tuple[InputBatch, PagedTables]:
        """The first `size` rows, as a model and its attention read them."""
        batch, tables = self._batch, self._tables
        return replace(
            batch,
            runs=batch.runs[:size],
            token_ids=batch.token_ids[:, :size],
            position_ids=batch.position_ids[:, :size],
        ), replace(
            tables,
            slots=tables.slots[:size],
            block_table=tables.block_table[:size],
            query_start=tables.query_start[: size + 1],
            context_start=tables.context_start[: size + 1],
            context_lengths=tables.context_lengths[:size],
            num_decodes=size,
        )

    def fill(self, runs: Sequence[ScheduledRequest], size: int, drawn: DrawnTokens) -> None:
        """Make these runs, of one token each, the first rows, and pad them up to `size`."""
        new_batch, new_tables = self._on_host(runs, size)
        batch, tables = self.head(size)
        copy_into(batch.token_ids, new_batch.token_ids)
        drawn.fill_in(batch.token_ids, new_batch.missing)
        copy_into(batch.position_ids, new_batch.position_ids)
        copy_into(tables.slots, new_tables.slots)
        copy_into(tables.block_table, new_tables.block_table)
        copy_into(tables.context_start, new_tables.context_start)
        copy_into(tables.context_lengths, new_tables.context_lengths)

    def _on_host(
        self, runs: Sequence[ScheduledRequest], size: int
    ) -> tuple[InputBatch, PagedTables]:
        padded = [*runs, *[self._padding] * (size - len(runs))]
        batch = InputBatch.build(padded, self._block_size, _CPU)
        return batch, PagedTables.of(batch, self._block_size, self._columns)
