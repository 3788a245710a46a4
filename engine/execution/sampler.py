"""From logits to tokens: greedy rows all at once, the others one by one.

One by one, so that nothing of a row's result depends on the rows beside it: torch computes the ends of
a tensor with other instructions than its middle. Such a row costs a fraction of a millisecond.
"""

import logging
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch

from cluster.wire.messages import TokenLogprobs
from cluster.wire.sampling import SamplingParams
from engine.execution.containment import is_device_failure
from engine.execution.logits import adjust_logits
from engine.execution.logprobs import token_logprobs
from engine.execution.noise import gumbel_noise
from engine.scheduling.output import ScheduledRequest
from engine.structured.mask import GrammarMask
from engine.structured.step_masks import NO_MASKS, StepMasks

_logger = logging.getLogger(__name__)

_NEVER = float("-inf")
GREEDY_BELOW = 1e-5
"""A temperature under this is greedy: dividing by it would overflow."""


class SampledToken(NamedTuple):
    """What came of one row: a token, or the reason why there is none."""

    token_id: int | None = None
    logprobs: TokenLogprobs | None = None
    error: str = ""


class HostDraw(NamedTuple):
    """What was drawn from some rows."""

    token_ids: torch.Tensor
    """(rows,) int64; where nothing could be drawn, any token."""
    sampled: list[SampledToken]

    def tokens(self) -> list[SampledToken]:
        """Those of all rows."""
        return self.sampled


class HostSampler:
    """Draws at once, and waits for the device, if there is one."""

    def draw(
        self, logits: torch.Tensor, runs: Sequence[ScheduledRequest], masks: StepMasks
    ) -> HostDraw:
        """Draw the token after each run from its row of `logits`, (rows, vocabulary) float32."""
        sampled = sample(logits, runs, masks)
        token_ids = [0 if token.token_id is None else token.token_id for token in sampled]
        return HostDraw(torch.tensor(token_ids, device=logits.device), sampled)


def sample(
    logits: torch.Tensor, runs: Sequence[ScheduledRequest], masks: StepMasks = NO_MASKS
) -> list[SampledToken]:
    """Draw the token after each run from its row of `logits`, (rows, vocabulary) float32.

    Greedy is the exact argmax, the lowest token id among equals. Logprobs are of the row as the model
    computed it, before anything that the request asks for, its grammar too. A row that cannot be
    sampled is an error of that row alone; an error of the device is raised.
    """
    if not runs:
        return []
    best = logits.max(dim=-1)
    # Copied from the device together; a float64 holds every token id exactly.
    best_values, ids = torch.stack((best.values.double(), best.indices.double())).tolist()
    best_ids = [int(token_id) for token_id in ids]
    return [
        _sample_row(row, run, best_id, best_value, masks)
        for row, run, best_id, best_value in zip(logits, runs, best_ids, best_values, strict=True)
    ]


def _sample_row(
    row: torch.Tensor, run: ScheduledRequest, best_id: int, best_value: float, masks: StepMasks
) -> SampledToken:
    request = run.request
    try:
        if not math.isfinite(best_value):
            raise ValueError("the model's logits are not finite numbers")
        token_id = _next_token(row, run, best_id, masks.of(request))
        logprobs = None
        if request.sampling.logprobs is not None:
            logprobs = token_logprobs(row[None], [token_id], request.sampling.logprobs)
        return SampledToken(token_id, logprobs)
    except ValueError as error:  # what it asks for cannot be done
        _logger.warning("%s cannot be sampled: %s", request.request_id, error)
        return SampledToken(error=f"sampling failed: {error}")
    except Exception as error:
        if is_device_failure(error):
            raise
        _logger.exception("%s cannot be sampled", request.request_id)
        return SampledToken(error=f"sampling failed: {error}")


def _next_token(
    row: torch.Tensor, run: ScheduledRequest, best_id: int, mask: GrammarMask | None
) -> int:
    request = run.request
    adjusted = adjust_logits(row, request, mask)
    if adjusted is not row:
        best = adjusted.max(dim=-1)
        best_id = int(best.indices.item())
        if not math.isfinite(best.values.item()):
            raise ValueError("no token is left to choose from")
    if request.sampling.temperature < GREEDY_BELOW:
        return best_id
    return _draw(adjusted, request.sampling, run.output_position)


def _draw(row: torch.Tensor, sampling: SamplingParams, position: int) -> int:
    """Narrow the row down, and draw from what is left by the Gumbel-max trick."""
    logits, token_ids = row / sampling.temperature, _all_token_ids(len(row), row.device)
    if 0 < sampling.top_k < len(row):
        kept = (logits >= logits.topk(sampling.top_k).values[-1]).nonzero()[:, 0]
        logits, token_ids = logits[kept], token_ids[kept]
    if sampling.top_p < 1.0:
        kept = _nucleus(logits, sampling.top_p)
        logits, token_ids = logits[kept], token_ids[kept]
    if sampling.min_p > 0.0:
        kept = (logits >= logits.amax() + math.log(sampling.min_p)).nonzero()[:, 0]
        logits, token_ids = logits[kept], token_ids[kept]
    noise = gumbel_noise(sampling.seed, sampling.choice, position, token_ids)
    winner = noise.add_(logits).max(dim=-1)
    if not math.isfinite(winner.values.item()):
        raise ValueError(f"temperature {sampling.temperature} leaves no numbers to choose from")
    return int(token_ids[winner.indices].item())


@lru_cache(maxsize=4)
def _all_token_ids(vocabulary: int, device: torch.device) -> torch.Tensor:
    return torch.arange(vocabulary, device=device)


def _nucleus(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Indexes of the fewest tokens whose probabilities reach `top_p` together, best first."""
    probabilities = logits.softmax(dim=-1)
    # All tokens this unlikely weigh less than 1 - top_p together: not worth sorting.
    likely = (probabilities * len(logits) >= 1.0 - top_p).nonzero()[:, 0]
    ordered = probabilities[likely].sort(descending=True, stable=True)
    before = ordered.values.cumsum(dim=-1) - ordered.values
    keep = before < top_p
    keep[0] = True
    return likely[ordered.indices[keep]]
