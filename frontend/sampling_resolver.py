"""A body's sampling fields to sampling parameters: the client's word, else the model's, else OpenAI's."""

import random
from collections.abc import Sequence
from typing import TypeVar

from cluster.errors import InvalidRequest
from cluster.wire.sampling import SamplingParams
from frontend.model_info import ModelInfo
from frontend.openai.decoding import convert_body
from frontend.openai.schemas import ChatBody, CompletionBody, GenerationBody

MIN_GREEDY_TEMPERATURE = 1e-5
"""Anything below is greedy, so that no logit is divided by next to nothing."""
TOKENS_AT_ONCE = 8192
_SEED_MASK = 2**63 - 1

Number = TypeVar("Number", int, float)


class SamplingResolver:
    """Checks what the model limits; gives seeds to requests without one."""

    def __init__(
        self, model: ModelInfo, eos_token_ids: Sequence[int], seeds: random.Random
    ) -> None:
        self._model = model
        self._seeds = seeds
        self._eos_token_ids = eos_token_ids

    def resolve(self, body: GenerationBody, grammar: str = "") -> SamplingParams:
        """The parameters of the body's first choice, but for `max_tokens` and `bad_words`.

        Those need the tokenizer. An answer with a grammar ends when it is complete, so the end of
        text counts for it whatever `ignore_eos` says. Raises InvalidRequest naming the field that is out of range.
        """
        # Bodies of other APIs are translated and so never decoded: the declared ranges hold for them too.
        convert_body(body, GenerationBody)
        defaults = self._model.defaults
        temperature = _first(body.temperature, defaults.temperature, 1.0)
        return SamplingParams(
            min_tokens=self._min_tokens(body),
            temperature=0.0 if temperature < MIN_GREEDY_TEMPERATURE else temperature,
            top_k=self._top_k(body),
            top_p=_first(body.top_p, defaults.top_p, 1.0),
            min_p=_first(body.min_p, defaults.min_p, 0.0),
            presence_penalty=body.presence_penalty or 0.0,
            frequency_penalty=body.frequency_penalty or 0.0,
            repetition_penalty=_first(body.repetition_penalty, defaults.repetition_penalty, 1.0),
            seed=self._seed(body.seed),
            stop_token_ids=self._stop_token_ids(body, ignores_eos(body, grammar)),
            logit_bias=self._logit_bias(body),
            allowed_token_ids=self._allowed_token_ids(body),
            logprobs=_num_logprobs(body),
            prompt_logprobs=_num_prompt_logprobs(body),
            grammar=grammar,
        )

    def check_token_ids(self, token_ids: Sequence[int], param: str) -> None:
        """Raises InvalidRequest if one of the ids is not in the vocabulary."""
        # In pieces, between which another thread can have a turn.
        for first in range(0, len(token_ids), TOKENS_AT_ONCE):
            some = token_ids[first : first + TOKENS_AT_ONCE]
            lowest, highest = min(some), max(some)
            if lowest < 0 or highest >= self._model.vocab_size:
                wrong = lowest if lowest < 0 else highest
                raise InvalidRequest(
                    f"{param}: {wrong} is not a token id; they go from 0 to "
                    f"{self._model.vocab_size - 1}",
                    param,
                )

    def _seed(self, asked: int | None) -> int:
        if asked is None:
            return self._seeds.getrandbits(63)
        return asked & _SEED_MASK

    def _min_tokens(self, body: GenerationBody) -> int:
        min_tokens = body.min_tokens or 0
        if min_tokens > self._model.max_model_len:
            raise InvalidRequest(
                f"min_tokens must be at most {self._model.max_model_len}, not {min_tokens}",
                "min_tokens",
            )
        max_tokens, _ = requested_max_tokens(body)
        if max_tokens is not None and min_tokens > max_tokens:
            raise InvalidRequest(
                f"min_tokens must be at most max_tokens ({max_tokens}), not {min_tokens}",
                "min_tokens",
            )
        return min_tokens

    def _top_k(self, body: GenerationBody) -> int:
        top_k = _first(body.top_k, self._model.defaults.top_k, 0)
        return min(max(top_k, 0), self._model.vocab_size)

    def _stop_token_ids(self, body: GenerationBody, without_eos: bool) -> list[int]:
        asked = body.stop_token_ids or []
        self.check_token_ids(asked, "stop_token_ids")
        own = () if without_eos else self._eos_token_ids
        return list(dict.fromkeys([*own, *asked]))

    def _logit_bias(self, body: GenerationBody) -> list[tuple[int, float]]:
        biases: list[tuple[int, float]] = []
        for token, bias in (body.logit_bias or {}).items():
            try:
                token_id = int(token)
            except ValueError as error:
                raise InvalidRequest(
                    f"logit_bias: {token!r} is not a token id", "logit_bias"
                ) from error
            biases.append((token_id, bias))
        self.check_token_ids([token_id for token_id, _ in biases], "logit_bias")
        return biases

    def _allowed_token_ids(self, body: GenerationBody) -> list[int]:
        allowed = body.allowed_token_ids or []
        self.check_token_ids(allowed, "allowed_token_ids")
        return allowed


def ignores_eos(body: GenerationBody, grammar: str) -> bool:
    """Whether the model's end of text is a token like any other."""
    return bool(body.ignore_eos) and not grammar


def requested_max_tokens(body: GenerationBody) -> tuple[int | None, str]:
    """How many tokens the client asked for, if it said, and the field in which it did."""
    if body.max_completion_tokens is not None:
        return body.max_completion_tokens, "max_completion_tokens"
    return body.max_tokens, "max_tokens"


def _first(asked: Number | None, recommended: Number | None, otherwise: Number) -> Number:
    if asked is not None:
        return asked
    return otherwise if recommended is None else recommended


def _num_logprobs(body: GenerationBody) -> int | None:
    if isinstance(body, CompletionBody):
        return body.logprobs
    assert isinstance(body, ChatBody), type(body)
    if body.top_logprobs and not body.logprobs:
        raise InvalidRequest("top_logprobs needs logprobs to be true", "top_logprobs")
    return (body.top_logprobs or 0) if body.logprobs else None


def _num_prompt_logprobs(body: GenerationBody) -> int | None:
    if body.prompt_logprobs is not None:
        if body.stream:
            raise InvalidRequest("prompt_logprobs cannot be streamed", "prompt_logprobs")
        return body.prompt_logprobs
    if isinstance(body, CompletionBody) and body.echo:
        return body.logprobs
    return None
