"""What a client may ask of the sampler. Read by both sides, owned by neither."""

import enum

import msgspec

from cluster.wire.numbers import Count, Finite


class FinishReason(enum.IntEnum):
    """Why a request ended."""

    STOP = 0
    LENGTH = 1
    ABORT = 2
    ERROR = 3

    @property
    def label(self) -> str:
        """The name that OpenAI's API and the metrics use."""
        return self.name.lower()


class Pooling(enum.IntEnum):
    """Which of a prompt's last hidden states make its vector."""

    MEAN = 0
    LAST = 1


class PoolingParams(msgspec.Struct, frozen=True, array_like=True):
    """What the vector of a prompt is made of."""

    pooling: Pooling = Pooling.MEAN
    normalize: bool = True
    """Whether its Euclidean length is made 1."""


class SamplingParams(msgspec.Struct, frozen=True, array_like=True):
    """How the tokens of one request are drawn, with every default resolved.

    The frontend has validated all of it against the model's limits; `seed` is always set, since
    the noise of an output position is a function of (seed, choice, position) alone.
    """

    max_tokens: Count = 16
    min_tokens: Count = 0
    temperature: Finite = 1.0
    """0 is greedy."""
    top_k: int = 0
    """0 is off."""
    top_p: Finite = 1.0
    min_p: Finite = 0.0
    presence_penalty: Finite = 0.0
    frequency_penalty: Finite = 0.0
    repetition_penalty: Finite = 1.0
    seed: int = 0
    choice: Count = 0
    """Index among the n choices of one client request; part of the noise's key."""
    stop_token_ids: list[int] = []
    """Tokens that end the request, the model's end-of-text tokens among them unless the
    client set `ignore_eos`. Suppressed until `min_tokens` are out."""
    logit_bias: list[tuple[int, Finite]] = []
    allowed_token_ids: list[int] = []
    """Empty means all."""
    bad_words: list[list[int]] = []
    logprobs: int | None = None
    """How many alternatives beside each sampled token; None for no logprobs at all."""
    prompt_logprobs: int | None = None
    grammar: str = ""
    """What the answer must be, in llguidance's own form, checked by the frontend; empty for anything."""
    pooling: PoolingParams | None = None
    """Set where nothing is drawn: the answer is one vector, and the request ends with its prompt."""
