"""The least that a step takes: what it has to read and to compute, on a machine with these limits."""

from typing import NamedTuple

import msgspec


class MachineLimits(msgspec.Struct, frozen=True):
    """The best that this machine was seen to do, with the threads that the engine has."""

    read_bytes_per_second: float
    flops_per_second: float

    def best_of(self, other: "MachineLimits") -> "MachineLimits":
        """Both measurements together: a limit is the most that was ever seen."""
        return MachineLimits(
            max(self.read_bytes_per_second, other.read_bytes_per_second),
            max(self.flops_per_second, other.flops_per_second),
        )


class ModelCost(msgspec.Struct, frozen=True):
    """What one token of a model costs."""

    body_weights: int
    """Numbers in the matrices that every token is multiplied with, the head's not among them."""
    head_weights: int
    """Numbers in the head, with which only the tokens are multiplied whose logits are wanted."""
    weight_bytes: int
    """Of one of those numbers, as it lies in memory."""
    kv_bytes_per_token: int
    """Keys and values of one token, over all layers."""
    attention_flops_per_pair: int
    """For each token and each token that it attends to, over all layers and heads."""


class StepWork(NamedTuple):
    """What a step computes."""

    tokens: int
    sampled: int
    """Tokens whose logits are wanted."""
    kv_tokens: int
    """Tokens whose keys and values are read."""
    pairs: int
    """Of a token and a token that it attends to."""

    @classmethod
    def decode(cls, batch: int, context: int) -> "StepWork":
        """One token of each of `batch` sequences that are `context` tokens long."""
        return cls(batch, batch, batch * context, batch * context)

    @classmethod
    def prefill(cls, tokens: int) -> "StepWork":
        """A whole prompt at once."""
        return cls(tokens, 1, tokens, tokens * (tokens + 1) // 2)


def floor_seconds(work: StepWork, model: ModelCost, machine: MachineLimits) -> float:
    """The larger of the time to read all weights and KV once, and the time to compute."""
    weights = model.body_weights + model.head_weights
    read_bytes = weights * model.weight_bytes + work.kv_tokens * model.kv_bytes_per_token
    linear_flops = 2 * (model.body_weights * work.tokens + model.head_weights * work.sampled)
    flops = linear_flops + model.attention_flops_per_pair * work.pairs
    return max(read_bytes / machine.read_bytes_per_second, flops / machine.flops_per_second)


_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def stored_bytes(dtype: str, quantization: str, device: str) -> int:
    """Bytes of one weight in the engine's memory.

    The CPU kernels hold bfloat16 as it is, and all else as float32.
    """
    if quantization == "int8":
        return 1
    if device == "cpu" and dtype != "bfloat16":
        return 4
    return _DTYPE_BYTES[dtype]
