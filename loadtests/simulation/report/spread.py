"""A quantity over seeds: its median, and how far the seeds lie apart."""

from collections.abc import Iterable
from statistics import median
from typing import NamedTuple


class Spread(NamedTuple):
    """The median over seeds, with the lowest and the highest of them.

    No distribution is assumed. Of five seeds, the lowest and the highest have the true median
    between them with a probability of 1 - 2 / 2⁵ = 94 %.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Of at least one value."""
        known = list(values)
        return cls(median(known), min(known), max(known))

    def scaled(self, factor: float) -> "Spread":
        """The same in another unit."""
        return Spread(self.median * factor, self.low * factor, self.high * factor)
