"""Log probabilities as they travel on the wire, always of the model's own logits."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from cluster.wire.messages import Blob, TokenLogprobs
from engine.execution.cuda.staging import to_host


def token_logprobs(logits: torch.Tensor, token_ids: Sequence[int], num_best: int) -> TokenLogprobs:
    """The log probability of each row's token and of its `num_best` best, best first.

    `logits` is (rows, vocabulary) float32, before any penalty or temperature; the result has width
    `num_best + 1`, the token itself in column 0.
    """
    chosen = torch.tensor(token_ids, device=logits.device)
    return pack_logprobs(LogprobRows.of(logits, chosen, num_best))


class LogprobRows(NamedTuple):
    """Token ids and log probabilities while they are tensors, (rows, width) both."""

    token_ids: torch.Tensor
    values: torch.Tensor

    @classmethod
    def of(cls, logits: torch.Tensor, chosen: torch.Tensor, num_best: int) -> "LogprobRows":
        """Those of `token_logprobs`, where `logits` and `chosen`, (rows,) int64, are."""
        chosen = chosen[:, None]
        best = logits.topk(min(num_best, logits.shape[-1]), dim=-1)
        total = logits.logsumexp(dim=-1, keepdim=True)
        ids = torch.cat([chosen, best.indices], dim=-1)
        values = torch.cat([logits.gather(-1, chosen), best.values], dim=-1) - total
        return cls(ids.to(torch.int32), values.float())

    def on_host(self) -> "LogprobRows":
        """The same on the host, once the device has come so far."""
        return LogprobRows(to_host(self.token_ids), to_host(self.values))


def pack_logprobs(rows: LogprobRows) -> TokenLogprobs:
    """For the wire."""
    return TokenLogprobs(
        width=rows.token_ids.shape[-1],
        token_ids=Blob(rows.token_ids.cpu().numpy().tobytes()),
        logprobs=Blob(rows.values.cpu().numpy().tobytes()),
    )
