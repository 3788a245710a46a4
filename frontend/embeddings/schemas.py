"""The body that clients send to /v1/embeddings, as OpenAI and vLLM define it."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from frontend.openai.limits import CacheSalt, PositiveCount, Priority, Rank, TokenId, TokenIds


class EmbeddingBody(msgspec.Struct, kw_only=True):
    """POST /v1/embeddings."""

    input: str | Annotated[list[str | TokenId | TokenIds], Meta(min_length=1)]
    """A text, token ids, or a list of either; each gets a vector of its own."""
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    """base64 is of float32 numbers, little-endian; float, a list of numbers, if left out."""
    dimensions: PositiveCount | None = None
    """Only what the model has: its vectors are not made to be shortened."""
    user: str | None = None
    """Of no consequence."""

    pooling: Literal["mean", "last"] | None = None
    """Of which hidden states the vector is made: the mean of all tokens', if left out, or the last's."""
    normalize: bool | None = None
    """Whether the vector's Euclidean length is made 1, as it is if left out."""
    truncate_prompt_tokens: Annotated[int, Meta(ge=-1)] | None = None
    """Keep only so many of the last tokens; -1 keeps as many as fit."""
    add_special_tokens: bool | None = None
    """Whether a text gets what the model puts around one, as it does if left out."""
    priority: Priority | None = None
    cache_salt: CacheSalt | None = None
    data_parallel_rank: Rank | None = None

    # Refused unless they ask for nothing: see `frontend.embeddings.inputs`.
    embed_dtype: Any = None
    endianness: Any = None
    use_activation: Any = None
