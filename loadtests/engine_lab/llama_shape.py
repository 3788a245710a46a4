"""Shapes of models whose speed is worth knowing where their weights are not at hand."""

from typing import NamedTuple


class LlamaShape(NamedTuple):
    """A Llama model but for its numbers."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    is_tied: bool
    """Whether the head is the embedding table."""


SHAPES = {
    "1b": LlamaShape(2048, 8192, 16, 32, 8, 64, 128_256, is_tied=True),
    "8b": LlamaShape(4096, 14_336, 32, 32, 8, 128, 128_256, is_tied=False),
}
"""Those of Llama 3.2 1B and Llama 3.1 8B."""
