"""What the reference is asked to measure: a line of JSON each."""

import msgspec


class DecodeTask(msgspec.Struct, frozen=True, tag="decode"):
    """The steps of `generate` after its first token."""

    batch: int
    context: int
    repeats: int
    steps: int


class PrefillTask(msgspec.Struct, frozen=True, tag="prefill"):
    """The forward pass of one prompt."""

    tokens: int
    repeats: int


Task = DecodeTask | PrefillTask
