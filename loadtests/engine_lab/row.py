"""One kind of step, as this engine and as transformers took it."""

from statistics import median
from typing import Literal

import msgspec

from loadtests.engine_lab.cost import MachineLimits


class Row(msgspec.Struct, frozen=True):
    """Seconds of every repeat, and the least that the machine's limits leave."""

    kind: Literal["decode", "prefill"]
    batch: int
    context: int
    """Length of each sequence when its decode steps begin; or of the prompt."""
    step_seconds: list[float]
    reference_step_seconds: list[float]
    """Empty where transformers was not measured."""
    limits: MachineLimits
    """As they were seen just before and just after."""
    floor_seconds: float

    @property
    def label(self) -> str:
        """What it is, for people."""
        if self.kind == "prefill":
            return f"prefill, {self.context} tokens"
        return f"decode, batch {self.batch}, context {self.context}"

    @property
    def seconds(self) -> float:
        """The median of the repeats."""
        return median(self.step_seconds)

    @property
    def tokens(self) -> int:
        """What a step computes."""
        return self.batch if self.kind == "decode" else self.context

    @property
    def tokens_per_second(self) -> float:
        """Of this engine."""
        return self.tokens / self.seconds

    @property
    def reference_tokens_per_second(self) -> float | None:
        """Of transformers, if it was measured."""
        if not self.reference_step_seconds:
            return None
        return self.tokens / median(self.reference_step_seconds)

    @property
    def ratio(self) -> float | None:
        """How many times transformers' speed."""
        reference = self.reference_tokens_per_second
        return None if reference is None else self.tokens_per_second / reference

    @property
    def share(self) -> float:
        """Of the speed that the limits allow."""
        return self.floor_seconds / self.seconds
