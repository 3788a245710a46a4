"""Where a step's KV is written and where its context lies, in the form that paged kernels read."""

from dataclasses import dataclass, replace

import torch

from engine.execution.cuda.staging import to_device
from engine.execution.input_batch import InputBatch
from engine.execution.paged_attention import PagedStep


@dataclass(frozen=True, slots=True)
class PagedTables:
    """The tables of one step, the same for all its layers."""

    slots: torch.Tensor
    """(tokens,) int64: where each token's KV goes, block times block size plus offset."""
    block_table: torch.Tensor
    """(runs, columns) int32: each run's blocks; beyond its context, any block that there is."""
    query_start: torch.Tensor
    """(runs + 1,) int32: where each run begins in the row of tokens."""
    context_start: torch.Tensor
    """(runs + 1,) int32: where each context would begin if all lay end to end."""
    context_lengths: torch.Tensor
    """(runs,) int32: the tokens that each run's last token attends to, itself included."""
    max_query_tokens: int
    max_context_tokens: int
    """No run has more; a kernel sizes its work by them."""
    num_decodes: int
    """How many runs at the beginning have one token."""

    @classmethod
    def of(cls, batch: InputBatch, block_size: int, min_columns: int = 1) -> "PagedTables":
        """The tables of a batch, on the CPU, `block_table` at least `min_columns` wide."""
        num_tokens = batch.query_start.diff()
        context_lengths = batch.first_position + num_tokens
        block_table = _padded(batch.block_table, -(-context_lengths // block_size), min_columns)
        return cls(
            slots=_slots(batch, num_tokens, block_table, block_size),
            block_table=block_table,
            query_start=batch.query_start,
            context_start=torch.nn.functional.pad(
                context_lengths.cumsum(0, dtype=torch.int32), (1, 0)
            ),
            context_lengths=context_lengths,
            max_query_tokens=int(num_tokens.max()),
            max_context_tokens=int(context_lengths.max()),
            num_decodes=int((num_tokens == 1).int().cumprod(0).sum()),
        )

    def to(self, device: torch.device) -> "PagedTables":
        """The same on a device."""
        return replace(
            self,
            slots=to_device(self.slots, device),
            block_table=to_device(self.block_table, device),
            query_start=to_device(self.query_start, device),
            context_start=to_device(self.context_start, device),
            context_lengths=to_device(self.context_lengths, device),
        )


def _padded(
    end_to_end: torch.Tensor, num_blocks: torch.Tensor, min_columns: int
) -> torch.Tensor:  # fmt: skip
    columns = max(min_columns, int(num_blocks.max()))
    is_used = torch.arange(columns) < num_blocks[:, None]
    table = torch.zeros(is_used.shape, dtype=torch.int32)
    return table.masked_scatter_(is_used, end_to_end)


def _slots(
    batch: InputBatch, num_tokens: torch.Tensor, block_table: torch.Tensor, block_size: int
) -> torch.Tensor:
    run = torch.repeat_interleave(torch.arange(len(num_tokens)), num_tokens)
    position = torch.arange(len(run)) + (batch.first_position - batch.query_start[:-1])[run]
    return block_table[run, position // block_size].long() * block_size + position % block_size


@dataclass(slots=True, kw_only=True)
class TabledStep(PagedStep):
    """A step that brings its tables along: one that is recorded, whose tables never move."""

    tables: PagedTables


class StepTables:
    """The tables of the step under way: made in its first layer, and kept for the others."""

    def __init__(self) -> None:
        self._latest: tuple[PagedStep, PagedTables] | None = None

    def of(self, step: PagedStep) -> PagedTables:
        """The step's tables, on the device of its cache."""
        if isinstance(step, TabledStep):
            return step.tables
        if self._latest is None or self._latest[0] is not step:
            tables = PagedTables.of(step.batch, step.storage.block_size)
            self._latest = step, tables.to(step.storage.keys[0].device)
        return self._latest[1]
