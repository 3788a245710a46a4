"""A step's work as tensors: one flat row of tokens, and where each sequence's KV lies."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from engine.execution.cuda.staging import to_device
from engine.request import Request
from engine.scheduling.output import ScheduledRequest


class MissingToken(NamedTuple):
    """A place in the row of tokens for what the step before draws."""

    column: int
    request: Request


@dataclass(frozen=True, slots=True)
class InputBatch:
    """The tokens of all runs, one run after another, and the page tables beside them."""

    runs: Sequence[ScheduledRequest]
    token_ids: torch.Tensor
    """(1, tokens) int64; 0 for those that are `missing`."""
    position_ids: torch.Tensor
    """(1, tokens) int64."""
    query_start: torch.Tensor
    """(runs + 1,) int32 on the CPU: where each run begins in the row."""
    first_position: torch.Tensor
    """(runs,) int32 on the CPU."""
    block_table: torch.Tensor
    """int32 on the CPU: the block tables, as far as they are used, one after another."""
    table_start: torch.Tensor
    """(runs,) int32 on the CPU: where each table begins in `block_table`."""
    missing: Sequence[MissingToken]

    @classmethod
    def build(
        cls, runs: Sequence[ScheduledRequest], block_size: int, device: torch.device
    ) -> "InputBatch":
        """The batch of these runs, of which there is at least one."""
        token_ids, positions = array("q"), array("q")
        query_start, first_position = array("i", [0]), array("i")
        block_table, table_start = array("i"), array("i")
        missing: list[MissingToken] = []
        for run in runs:
            end = run.end
            known = run.request.token_ids[run.first_position : end]
            token_ids.extend(known)
            if len(known) < run.num_tokens:
                missing.append(MissingToken(len(token_ids), run.request))
                token_ids.append(0)
            positions.extend(range(run.first_position, end))
            query_start.append(len(token_ids))
            first_position.append(run.first_position)
            table_start.append(len(block_table))
            block_table.extend(run.block_table[: -(-end // block_size)])
        return cls(
            runs=runs,
            token_ids=to_device(torch.frombuffer(token_ids, dtype=torch.int64), device)[None],
            position_ids=to_device(torch.frombuffer(positions, dtype=torch.int64), device)[None],
            query_start=torch.frombuffer(query_start, dtype=torch.int32),
            first_position=torch.frombuffer(first_position, dtype=torch.int32),
            block_table=torch.frombuffer(block_table, dtype=torch.int32),
            table_start=torch.frombuffer(table_start, dtype=torch.int32),
            missing=missing,
        )

    @property
    def last_rows(self) -> list[int]:
        """The row of each run's last token."""
        ends: list[int] = self.query_start[1:].tolist()
        return [end - 1 for end in ends]
