"""Log probabilities as they travel on the wire, always of the model's own logits."""

from collections.abc import Sequence

import torch

from cluster.wire.messages import Blob, TokenLogprobs


def token_logprobs(logits: torch.Tensor, token_ids: Sequence[int], num_best: int) -> TokenLogprobs:
    """The log probability of each row's token and of its `num_best` best, best first.

    `logits` is (rows, vocabulary) float32, before any penalty or temperature; the result has width
    `num_best + 1`, the token itself in column 0.
    """
    width = min(num_best, logits.shape[-1]) + 1
    chosen = torch.tensor(token_ids, device=logits.device)[:, None]
    best = logits.topk(width - 1, dim=-1)
    total = logits.logsumexp(dim=-1, keepdim=True)
    ids = torch.cat([chosen, best.indices], dim=-1)
    values = torch.cat([logits.gather(-1, chosen), best.values], dim=-1) - total
    return TokenLogprobs(
        width=width,
        token_ids=Blob(ids.to(device="cpu", dtype=torch.int32).numpy().tobytes()),
        logprobs=Blob(values.float().cpu().numpy().tobytes()),
    )
