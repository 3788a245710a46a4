"""Vectors to the answer of /v1/embeddings, as JSON."""

import base64
from collections.abc import Sequence
from typing import cast

import msgspec

from cluster.wire.messages import Blob
from frontend.embeddings.objects import Embedding, EmbeddingList, EmbeddingUsage


def encode_answer(
    vectors: Sequence[Blob], as_base64: bool, model: str, num_prompt_tokens: int
) -> bytes:
    """The whole answer.

    Vector by vector, since the encoder lets no other thread run meanwhile, the event loop's neither.
    """
    data = [
        msgspec.Raw(msgspec.json.encode(_embedding(index, vector, as_base64)))
        for index, vector in enumerate(vectors)
    ]
    usage = EmbeddingUsage(prompt_tokens=num_prompt_tokens, total_tokens=num_prompt_tokens)
    answer = EmbeddingList(data=cast("list[Embedding]", data), model=model, usage=usage)
    return msgspec.json.encode(answer)


def _embedding(index: int, vector: Blob, as_base64: bool) -> Embedding:
    numbers = memoryview(vector.data).cast("B")
    if as_base64:
        return Embedding(index=index, embedding=base64.b64encode(numbers).decode())
    return Embedding(index=index, embedding=[float(number) for number in numbers.cast("f")])
