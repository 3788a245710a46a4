"""What is measured: an engine, and the steps that it is to compute."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

Device = Literal["cuda", "cpu"]
Quantization = Literal["none", "int8"]

WARM_UP_STEPS = 2
"""Before each series of steps: the first ones find the caches cold."""
OVERHEAD_BATCH = 16
SIMULATED_BATCH = 256
SIMULATED_CONTEXT = 64
OVERHEAD_SLACK_TOKENS = 8
"""What requests may have got before all of them decode together."""
ADMISSION_BLOCKS = 2
"""Blocks that the scheduler leaves free for each request that runs."""


class EngineTarget(NamedTuple):
    """Which engine is measured."""

    model: Path
    device: Device
    threads: int
    quantization: Quantization = "none"
    dtype: Literal["auto", "float32"] = "auto"


class EngineLoad(NamedTuple):
    """What it is to compute. Every repeat is a series of `steps` steps."""

    batches: Sequence[int] = (1, 8, 32)
    contexts: Sequence[int] = (256, 1024)
    prefill_tokens: int = 512
    repeats: int = 5
    steps: int = 8

    @property
    def measured_steps(self) -> int:
        """Steps that count, over all repeats."""
        return self.repeats * self.steps

    @property
    def growth(self) -> int:
        """Tokens by which a sequence gets longer while it is measured, in two series."""
        return self.measured_steps + 2 * WARM_UP_STEPS + 1

    @property
    def longest_context(self) -> int:
        """The longest sequence of the decode steps."""
        return max(self.contexts) + self.growth

    @property
    def longest_request(self) -> int:
        """The longest request of the scheduler's steps."""
        return min(self.contexts) + OVERHEAD_SLACK_TOKENS + self.measured_steps

    @property
    def longest_sequence(self) -> int:
        """The longest of all."""
        return max(self.longest_context, self.longest_request, self.prefill_tokens + 1)

    def num_blocks(self, block_size: int) -> int:
        """Blocks of the KV cache that all of it needs."""
        decode = max(self.batches) * -(-self.longest_context // block_size)
        request = -(-self.longest_request // block_size) + ADMISSION_BLOCKS
        return max(decode, OVERHEAD_BATCH * request, -(-self.longest_sequence // block_size)) + 2
