"""What a request asks to be done to its logits before a token is drawn: biases, penalties, bans."""

from collections.abc import Sequence

import torch

from cluster.wire.sampling import SamplingParams
from engine.request import Request
from engine.structured.mask import GrammarMask

_NEVER = float("-inf")


def adjust_logits(
    row: torch.Tensor, request: Request, mask: GrammarMask | None = None
) -> torch.Tensor:
    """`row`, (vocabulary,) float32, after bias, penalties, grammar and bans, in this order.

    The same tensor where the request asks for nothing, else a new one. Penalties count what
    `request` holds as output, so they come out alike on whichever engine it goes on. Raises
    ValueError for a token id out of the vocabulary.
    """
    sampling = request.sampling
    early_stops, bad_word_ends = _early_stop_ids(request), _bad_word_ends(request)
    if not (
        early_stops or bad_word_ends or mask is not None
        or sampling.logit_bias or sampling.allowed_token_ids or _penalizes(sampling)
    ):  # fmt: skip
        return row
    row = row.clone()
    if sampling.logit_bias:
        ids, biases = zip(*sampling.logit_bias, strict=True)
        row.index_add_(0, _index(ids, row), torch.tensor(biases, device=row.device))
    if _penalizes(sampling):
        _penalize(row, request)
    if sampling.allowed_token_ids:
        allowed = _index(sampling.allowed_token_ids, row)
        row = torch.full_like(row, _NEVER).index_copy_(0, allowed, row[allowed])
    if mask is not None:
        row.masked_fill_(~_allowed_by(mask, row), _NEVER)
    if bad_word_ends:
        row[_index(bad_word_ends, row)] = _NEVER
    if early_stops:
        row = _without_early_stops(row, early_stops, has_grammar=mask is not None)
    return row


def _penalizes(sampling: SamplingParams) -> bool:
    return (
        sampling.presence_penalty != 0.0
        or sampling.frequency_penalty != 0.0
        or sampling.repetition_penalty != 1.0
    )


def _penalize(row: torch.Tensor, request: Request) -> None:
    """Repetition over prompt and output (Keskar et al.), presence and frequency over the output."""
    sampling = request.sampling
    if sampling.repetition_penalty != 1.0:
        seen = _index(sorted(set(request.token_ids)), row)
        values, penalty = row[seen], sampling.repetition_penalty
        row[seen] = torch.where(values > 0, values / penalty, values * penalty)
    if sampling.presence_penalty or sampling.frequency_penalty:
        counts = torch.bincount(_index(request.output_token_ids, row), minlength=len(row))
        row -= sampling.frequency_penalty * counts + sampling.presence_penalty * (counts > 0)


def _allowed_by(mask: GrammarMask, row: torch.Tensor) -> torch.Tensor:
    """The mask as a bool a token, unpacked where the row is."""
    packed = torch.frombuffer(bytearray(mask.bits), dtype=torch.uint8).to(row.device)
    bits = packed[:, None] >> torch.arange(8, dtype=torch.uint8, device=row.device) & 1
    return bits.flatten()[: len(row)].bool()


def _early_stop_ids(request: Request) -> list[int]:
    """Stop tokens, while `min_tokens` are not out."""
    sampling = request.sampling
    return sampling.stop_token_ids if request.num_output_tokens < sampling.min_tokens else []


def _without_early_stops(
    row: torch.Tensor, early_stops: list[int], has_grammar: bool
) -> torch.Tensor:
    """The row with stops banned; but where a grammar allows nothing else, the answer may end."""
    banned = row.index_fill(0, _index(early_stops, row), _NEVER)
    return row if has_grammar and banned.amax() == _NEVER else banned


def _bad_word_ends(request: Request) -> list[int]:
    """What would complete a bad word."""
    ends: list[int] = []
    if request.sampling.bad_words:
        output = request.output_token_ids
        for word in request.sampling.bad_words:
            head = word[:-1]
            if word and output[len(output) - len(head) :] == head:
                ends.append(word[-1])
    return ends


def _index(token_ids: Sequence[int], row: torch.Tensor) -> torch.Tensor:
    # torch takes negative indexes silently, and they would name another token.
    if token_ids and (min(token_ids) < 0 or max(token_ids) >= len(row)):
        raise ValueError(f"a token id is outside the vocabulary of {len(row)}")
    return torch.tensor(token_ids, dtype=torch.int64, device=row.device)
