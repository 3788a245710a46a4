"""The tokens that a step draws, where the next step finds them: on the device, known to no host yet."""

from collections.abc import Sequence

import torch

from engine.execution.cuda.staging import to_device
from engine.execution.input_batch import MissingToken
from engine.request import Request


class DrawnTokens:
    """Those of one step, by request."""

    def __init__(self, requests: Sequence[Request], token_ids: torch.Tensor) -> None:
        """`token_ids` is (requests,) int64; of requests for which none could be drawn, any token."""
        self._rows = {request: row for row, request in enumerate(requests)}
        self._token_ids = token_ids

    def fill_in(self, token_ids: torch.Tensor, missing: Sequence[MissingToken]) -> None:
        """Put each missing token into its place in a batch's `token_ids`, (1, tokens)."""
        if not missing:
            return
        columns = torch.tensor([token.column for token in missing])
        rows = torch.tensor([self._rows[token.request] for token in missing])
        drawn = self._token_ids[to_device(rows, token_ids.device)]
        token_ids[0].index_copy_(0, to_device(columns, token_ids.device), drawn)


NOTHING_DRAWN = DrawnTokens([], torch.empty(0, dtype=torch.int64))
