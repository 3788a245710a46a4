"""The tokens of a simulated model: a function of all that a real one's would depend on.

A token depends on every token before it, on where the prompt ends, and, unless it is greedy, on seed, choice and
output position. So a wrong seam, a lost or doubled token or a wrong seed shows in the text.
"""

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple
from weakref import WeakKeyDictionary

from cluster.wire.messages import Blob, TokenLogprobs
from cluster.wire.sampling import SamplingParams
from engine.request import Request
from engine.scheduling.output import ScheduledRequest
from engine.structured.mask import GrammarMask

_MASK = (1 << 64) - 1
_GREEDY_BELOW = 1e-5
_SCORE_STEP = 0.25
"""How much less likely each token is than the one before it in the model's ranking."""
_LEAST_SCORE = -20.0
"""Of all tokens that are not at the top of the ranking."""
_NUM_RANKED = 64
_NUM_DRAWN = 16
"""Among so many of the best a token is drawn that is not greedy."""


def _mix(value: int) -> int:
    """A number of 64 bits in which each bit of `value` counts (the end of splitmix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class _State(NamedTuple):
    """How far a request has come."""

    num_tokens: int
    hash: int
    """Of so many of its tokens."""
    next_token: int
    """What was drawn after them: while that is in flight, the request does not have it."""


class TokenSource:
    """Draws the next token of a request, in O(1) for each token of its output."""

    def __init__(self, vocab_size: int, word_ids: Sequence[int]) -> None:
        self._vocab_size = vocab_size
        self._word_ids = word_ids
        self._words = frozenset(word_ids)
        self._states: WeakKeyDictionary[Request, _State] = WeakKeyDictionary()

    def next_token(
        self, run: ScheduledRequest, mask: GrammarMask | None = None
    ) -> tuple[int, TokenLogprobs | None]:
        """The token drawn after a run, and its logprobs if they are wanted.

        Where a grammar's `mask` says what may come, it is any token of the vocabulary, words or not.

        Raises ValueError if the request's limits leave no token to choose from.
        """
        request, sampling = run.request, run.request.sampling
        ranking_key = key = self._hash_of(run)
        if sampling.temperature >= _GREEDY_BELOW:
            key = _mix(key ^ _mix(sampling.seed & _MASK) ^ _mix(sampling.choice + 1 << 40))
            key = ranking_key + _mix(key ^ run.output_position) % _NUM_DRAWN
        token_id = self._choose(key, request, mask)
        self._states[request] = _State(run.end, ranking_key, token_id)
        if sampling.logprobs is None:
            return token_id, None
        return token_id, self._logprobs([ranking_key], [token_id], sampling.logprobs)

    def prompt_logprobs(self, request: Request, first: int, end: int) -> TokenLogprobs | None:
        """Of the prompt tokens from position `first` to before `end`; None if there are none."""
        num_best = request.sampling.prompt_logprobs
        token_ids = request.token_ids[first : min(end, request.num_prompt_tokens)]
        if num_best is None or request.prompt_logprobs_sent or not token_ids:
            return None
        before = request.token_ids[first - 1 : first - 1 + len(token_ids)]
        keys = [_mix((first + i << 32) ^ token_id) for i, token_id in enumerate(before)]
        return self._logprobs(keys, token_ids, num_best)

    def _hash_of(self, run: ScheduledRequest) -> int:
        """A hash of all tokens so far, carried on from the one of the token before."""
        request, start = run.request, run.request.num_prompt_tokens
        known = self._states.get(request)
        if known is None:
            prompt = array("q", request.token_ids[:start]).tobytes()
            state = int.from_bytes(blake2b(prompt, digest_size=8).digest(), "little")
            new_token_ids = request.token_ids[start : run.end]
        else:
            state, new_token_ids = known.hash, request.token_ids[known.num_tokens : run.end]
            if known.num_tokens + len(new_token_ids) < run.end:
                new_token_ids.append(known.next_token)
        for token_id in new_token_ids:
            state = _mix(state ^ token_id)
        return state

    # ── choosing ──

    def _ranking(self, key: int, token_ids: Sequence[int]) -> Iterator[int]:
        """`token_ids` in the order in which the model likes them, each once."""
        start = key % len(token_ids)
        return (token_ids[(start + i) % len(token_ids)] for i in range(len(token_ids)))

    def _choose(self, key: int, request: Request, mask: GrammarMask | None) -> int:
        early_stops, bad_word_ends = early_stop_ids(request), bad_word_end_ids(request)
        best = self._best(key, request.sampling, early_stops | bad_word_ends, mask)
        if best is None and mask is not None:  # the grammar allows nothing else
            best = self._best(key, request.sampling, bad_word_ends, mask)
        if best is None:
            raise ValueError("no token is left to choose from")
        return best

    def _best(
        self, key: int, sampling: SamplingParams, banned: set[int], mask: GrammarMask | None
    ) -> int | None:
        allowed, biases = sampling.allowed_token_ids, _biases(sampling)
        self._check_ids(allowed)
        self._check_ids(list(biases))
        unbiased = (
            token_id
            for token_id in self._liked(key, allowed, mask)
            if token_id not in banned and token_id not in biases
        )
        candidates: list[tuple[float, int]] = []
        if (best := next(unbiased, None)) is not None:
            candidates.append((0.0, -best))
        scores = self._scores(key) if biases else {}
        for token_id, bias in biases.items():
            may_come = mask is None or mask.allows(token_id)
            if may_come and token_id not in banned and (not allowed or token_id in allowed):
                candidates.append((scores.get(token_id, _LEAST_SCORE) + bias, -token_id))
        return -max(candidates)[1] if candidates else None

    def _liked(self, key: int, allowed: Sequence[int], mask: GrammarMask | None) -> Iterator[int]:
        """What may come, in the order in which the model likes it."""
        if mask is None:
            return self._ranking(key, allowed or self._word_ids)
        if not allowed:
            return mask.allowed_from(key % self._vocab_size)
        return filter(mask.allows, self._ranking(key, allowed))

    def _check_ids(self, token_ids: Sequence[int]) -> None:
        for token_id in token_ids:
            if not 0 <= token_id < self._vocab_size:
                raise ValueError(f"a token id is outside the vocabulary of {self._vocab_size}")

    def _scores(self, key: int) -> dict[int, float]:
        """What a bias is added to, for the tokens that the model likes best."""
        best = zip(range(_NUM_RANKED), self._ranking(key, self._word_ids), strict=False)
        return {token_id: -_SCORE_STEP * rank for rank, token_id in best}

    # ── logprobs ──

    def _logprobs(
        self, keys: Sequence[int], token_ids: Sequence[int], num_best: int
    ) -> TokenLogprobs:
        """Made-up log probabilities: the token itself first, then the best of the ranking."""
        num_best = min(num_best, self._vocab_size)
        ids, values = array("i"), array("f")
        for key, token_id in zip(keys, token_ids, strict=True):
            scores = self._scores(key)
            others = (i for i in range(self._vocab_size) if i not in self._words)
            best = chain(self._ranking(key, self._word_ids), others)
            ids.append(token_id)
            ids.extend(next(best) for _ in range(num_best))
            values.extend(_logprob(scores, i) for i in ids[len(values) :])
        return TokenLogprobs(num_best + 1, Blob(ids.tobytes()), Blob(values.tobytes()))


def _logprob(scores: dict[int, float], token_id: int) -> float:
    return scores.get(token_id, _LEAST_SCORE) - 1.5


def _biases(sampling: SamplingParams) -> dict[int, float]:
    biases: dict[int, float] = {}
    for token_id, bias in sampling.logit_bias:
        biases[token_id] = biases.get(token_id, 0.0) + bias
    return biases


def early_stop_ids(request: Request) -> set[int]:
    """Stop tokens, while `min_tokens` are not out."""
    sampling = request.sampling
    return (
        set(sampling.stop_token_ids) if request.num_output_tokens < sampling.min_tokens else set()
    )


def bad_word_end_ids(request: Request) -> set[int]:
    """What would complete a bad word."""
    banned: set[int] = set()
    for word in request.sampling.bad_words:
        head = word[:-1]
        start = request.num_tokens - len(head)
        if word and start >= request.num_prompt_tokens and request.token_ids[start:] == head:
            banned.add(word[-1])
    return banned
