"""What clients get from /v1/embeddings, as OpenAI defines it."""

from typing import Literal

import msgspec


class Embedding(msgspec.Struct, kw_only=True):
    """The vector of one input."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str
    """Numbers, or base64 of them."""


class EmbeddingUsage(msgspec.Struct, kw_only=True):
    """Tokens of all inputs together."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(msgspec.Struct, kw_only=True):
    """The vectors of all inputs, in their order."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
