"""How long prompts and answers are."""

import random
from functools import cached_property
from math import exp, log, sqrt
from statistics import fmean

import msgspec

NUM_SAMPLES = 4000


class Lengths(msgspec.Struct, frozen=True, dict=True):
    """A lognormal distribution of numbers of tokens, cut at both ends; `variation` 0 is one number."""

    typical_tokens: float
    """The mean, before the ends are cut."""
    variation: float = 0.0
    """The coefficient of variation: the standard deviation over the mean."""
    least_tokens: int = 1
    most_tokens: int = 1 << 20

    def draw(self, source: random.Random) -> int:
        """A number of tokens."""
        value = self.typical_tokens
        if self.variation:
            variance = log(1 + self.variation**2)
            value = exp(source.gauss(log(self.typical_tokens) - variance / 2, sqrt(variance)))
        return min(max(round(value), self.least_tokens), self.most_tokens)

    @cached_property
    def mean_tokens(self) -> float:
        """The mean of what is drawn, near enough."""
        source = random.Random(0)
        return fmean(self.draw(source) for _ in range(NUM_SAMPLES))
