"""Slots and padded tables are those that one would write down by hand."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.execution.cuda.paged_tables import PagedTables, StepTables, TabledStep
from engine.execution.input_batch import InputBatch
from engine.execution.paged_attention import PagedStep
from tests.engine.execution.cuda.steps import CPU, MIXED, make_case, make_runs

shapes = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=8)


@given(shape=shapes, block_size=st.integers(1, 17), min_columns=st.integers(1, 9))
def test_tables_say_where_each_token_lies(
    shape: list[tuple[int, int]], block_size: int, min_columns: int
) -> None:
    runs = make_runs(shape, block_size, num_blocks=600)
    tables = PagedTables.of(InputBatch.build(runs, block_size, CPU), block_size, min_columns)
    assert tables.slots.tolist() == [
        run.block_table[position // block_size] * block_size + position % block_size
        for run in runs
        for position in range(run.first_position, run.first_position + run.num_tokens)
    ]
    contexts = [run.first_position + run.num_tokens for run in runs]
    for row, run, context in zip(tables.block_table.tolist(), runs, contexts, strict=True):
        used = -(-context // block_size)
        assert row[:used] == run.block_table[:used]
        assert len(row) == max(min_columns, -(-max(contexts) // block_size))
        assert all(0 <= block < 600 for block in row)
    assert tables.context_lengths.tolist() == contexts
    assert tables.context_start.tolist() == [sum(contexts[:i]) for i in range(len(contexts) + 1)]
    assert tables.query_start.diff().tolist() == [run.num_tokens for run in runs]
    assert tables.max_query_tokens == max(run.num_tokens for run in runs)
    assert tables.max_context_tokens == max(contexts)
    assert {t.dtype for t in (tables.block_table, tables.context_start, tables.context_lengths,
                              tables.query_start)} == {torch.int32}  # fmt: skip


def test_decodes_are_counted_up_to_the_first_chunk() -> None:
    batch = InputBatch.build(make_runs(MIXED, 4, 40), 4, CPU)
    assert PagedTables.of(batch, 4).num_decodes == 3


def test_tables_are_made_once_a_step() -> None:
    tables, step = StepTables(), make_case().step
    first = tables.of(step)
    assert tables.of(step) is first
    again = PagedStep(step.batch, step.storage, step.backend)
    assert tables.of(again) is not first


def test_a_step_that_has_its_own_tables_keeps_them() -> None:
    step = make_case().step
    own = PagedTables.of(step.batch, 4, min_columns=30)
    tabled = TabledStep(step.batch, step.storage, step.backend, tables=own)
    assert StepTables().of(tabled) is own
