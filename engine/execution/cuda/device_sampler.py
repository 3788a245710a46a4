"""Draws tokens on the device, for all rows at once, and without a word to the host.

What depends on more than a row's logits, penalties or a grammar, is drawn by the host from a copy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.execution.cuda.staging import to_device, to_host
from engine.execution.logprobs import LogprobRows, pack_logprobs
from engine.execution.noise import gumbel_noise_of_rows
from engine.execution.sampler import GREEDY_BELOW, SampledToken, sample
from engine.scheduling.lookahead import draws_freely
from engine.scheduling.output import ScheduledRequest
from engine.structured.step_masks import StepMasks

_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class DeviceDraw:
    """What was drawn from some rows: at once for the device, and for the host once that has come so far."""

    token_ids: torch.Tensor
    """(rows,) int64 on the device; where the host draws, or nothing can be drawn, any token."""
    _runs: Sequence[ScheduledRequest]
    _host_ids: torch.Tensor
    """(2, rows) int64 on the host: token ids, and whether the logits are finite."""
    _logprobs: dict[int, LogprobRows]
    """By row."""
    _left: list[int]
    """The rows that the host draws."""
    _left_logits: torch.Tensor
    _masks: StepMasks

    def tokens(self) -> list[SampledToken]:
        """Those of all rows. To be asked only when the device is done."""
        ids, is_finite = self._host_ids.tolist()
        runs = [self._runs[row] for row in self._left]
        left = dict(zip(self._left, sample(self._left_logits, runs, self._masks), strict=True))
        return [
            left[row] if row in left else self._token(row, ids[row], bool(is_finite[row]))
            for row in range(len(ids))
        ]

    def _token(self, row: int, token_id: int, is_finite: bool) -> SampledToken:
        if not is_finite:
            return SampledToken(error="sampling failed: the logits are not finite numbers")
        logprobs = self._logprobs.get(row)
        return SampledToken(token_id, None if logprobs is None else pack_logprobs(logprobs))


class DeviceSampler:
    """Draws without waiting for the device."""

    def draw(
        self, logits: torch.Tensor, runs: Sequence[ScheduledRequest], masks: StepMasks
    ) -> DeviceDraw:
        """Draw the token after each run from its row of `logits`, (rows, vocabulary) float32."""
        token_ids, is_finite = _draw_freely(logits, runs)
        left = [
            row
            for row, run in enumerate(runs)
            if not draws_freely(run.request.sampling, run.output_position)
        ]
        logprobs = {
            row: LogprobRows.of(logits[row, None], token_ids[row, None], num_best).on_host()
            for row, run in enumerate(runs)
            if (num_best := run.request.sampling.logprobs) is not None and row not in left
        }
        left_logits = logits[to_device(torch.tensor(left, dtype=torch.int64), logits.device)]
        return DeviceDraw(
            token_ids, runs, to_host(torch.stack((token_ids, is_finite.long()))), logprobs, left,
            to_host(left_logits), masks,
        )  # fmt: skip


def _draw_freely(
    logits: torch.Tensor, runs: Sequence[ScheduledRequest]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids, and whether they could be drawn."""
    best = logits.max(dim=-1)
    token_ids, is_finite = best.indices, best.values.isfinite()
    random = [
        row for row, run in enumerate(runs) if run.request.sampling.temperature >= GREEDY_BELOW
    ]
    if random:
        rows = to_device(torch.tensor(random), logits.device)
        drawn = _draw_randomly(logits[rows], [runs[row] for row in random])
        token_ids = token_ids.index_copy(0, rows, drawn.indices)
        is_finite = is_finite.index_copy(0, rows, drawn.values.isfinite() & is_finite[rows])
    return token_ids, is_finite


def _draw_randomly(
    logits: torch.Tensor, runs: Sequence[ScheduledRequest]
) -> torch.return_types.max:
    """The winner of each row by the Gumbel-max trick, among what is left of the row."""
    samplings = [run.request.sampling for run in runs]

    def column(values: list[float]) -> torch.Tensor:
        return to_device(torch.tensor(values, dtype=torch.float32), logits.device)[:, None]

    logits = logits / column([sampling.temperature for sampling in samplings])
    if any(sampling.top_k > 0 or sampling.top_p < 1.0 for sampling in samplings):
        vocabulary = logits.shape[-1]
        logits = _narrow(
            logits,
            column([min(s.top_k, vocabulary) if s.top_k > 0 else vocabulary for s in samplings]),
            column([s.top_p if s.top_p < 1.0 else math.inf for s in samplings]),
        )
    if any(sampling.min_p > 0.0 for sampling in samplings):
        lowest = column([math.log(s.min_p) if s.min_p > 0.0 else _NEVER for s in samplings])
        logits = logits.masked_fill(logits < logits.amax(-1, keepdim=True) + lowest, _NEVER)
    keys = [(s.seed, s.choice, r.output_position) for s, r in zip(samplings, runs, strict=True)]
    return (logits + gumbel_noise_of_rows(keys, logits.shape[-1], logits.device)).max(dim=-1)


def _narrow(logits: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """The rows without what is beyond their `top_k` and then their `top_p`, both (rows, 1)."""
    ordered = logits.sort(dim=-1, descending=True, stable=True)
    last = ordered.values.gather(-1, top_k.long() - 1)
    values = ordered.values.masked_fill(ordered.values < last, _NEVER)
    probabilities = values.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    is_kept = (before < top_p) & (values > _NEVER)
    is_kept[:, 0] = True
    return torch.full_like(logits, _NEVER).scatter(
        -1, ordered.indices, values.masked_fill(~is_kept, _NEVER)
    )
