"""What is shown of outcomes: names, units and how many digits."""

from collections.abc import Iterable
from typing import NamedTuple

from loadtests.simulation.outcome import Outcome
from loadtests.simulation.report.spread import Spread


class Measure(NamedTuple):
    """One quantity of an outcome, as people read it."""

    field: str
    """Its name in `Outcome`."""
    heading: str
    """Over a column."""
    title: str
    """Over a picture."""
    unit: str
    scale: float = 1.0
    """From the unit of the outcome to the one that is shown."""
    digits: int = 0
    is_more_better: bool = False

    def spread(self, outcomes: Iterable[Outcome]) -> Spread:
        """Median and range over these outcomes, in the unit that is shown."""
        return Spread.of(getattr(outcome, self.field) for outcome in outcomes).scaled(self.scale)

    def text(self, value: float) -> str:
        """A number without its unit, its thousands set apart."""
        return f"{value:,.{self.digits}f}".replace(",", "\u202f")


TTFT_MEAN = Measure("ttft_mean", "TTFT mean", "Mean time to first token", "ms", 1000)
HIT_RATE = Measure("hit_rate", "hits", "Prompt tokens found in a cache", "%", 100, 1, True)
IMBALANCE = Measure(
    "imbalance", "imbalance", "Most less fewest requests of an engine, over their mean", "", 1, 2
)
GOODPUT = Measure(
    "goodput", "goodput", "Requests within TTFT 1 s and TPOT 50 ms", "%", 100, 1, True
)

MEASURES = (
    TTFT_MEAN,
    Measure("ttft_p50", "TTFT p50", "Median time to first token", "ms", 1000),
    Measure("ttft_p99", "TTFT p99", "99th percentile of the time to first token", "ms", 1000),
    Measure("tpot_p50", "TPOT p50", "Median time per output token", "ms", 1000, 1),
    Measure("tpot_p99", "TPOT p99", "99th percentile of the time per output token", "ms", 1000, 1),
    Measure("e2e_p50", "E2E p50", "Median time of a whole answer", "s", 1, 2),
    Measure("e2e_p99", "E2E p99", "99th percentile of the time of a whole answer", "s", 1, 2),
    GOODPUT,
    HIT_RATE,
    IMBALANCE,
    Measure("preemptions", "preemptions", "Requests computed again for lack of memory", ""),
    Measure("decision_microseconds", "decision", "CPU time of a decision", "µs", 1, 1),
)
