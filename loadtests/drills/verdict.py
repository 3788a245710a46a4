"""What came out of a drill: checks, figures, and whether it passed."""

from typing import Literal

import msgspec

from loadtests.drills.history import History

Outcome = Literal["passed", "failed", "skipped"]


class Check(msgspec.Struct):
    """Something that must hold, and whether it did."""

    label: str
    passed: bool
    detail: str = ""


class Figure(msgspec.Struct):
    """Something that was measured."""

    label: str
    value: float | str
    unit: str = ""

    @property
    def text(self) -> str:
        """The value with its unit, with as many digits as make sense."""
        return f"{format_value(self.value)} {self.unit}".strip()


class Verdict(msgspec.Struct):
    """One run of one drill."""

    name: str
    promise: str
    outcome: Outcome
    seconds: float
    checks: list[Check] = []
    figures: list[Figure] = []
    history: History = msgspec.field(default_factory=History)
    reason: str = ""
    """Why it was skipped."""
    log_tail: str = ""
    """The end of the cluster's log, of a failed drill."""


def format_value(value: float | str) -> str:
    """A number for people: 0.123, 1.23, 12.3, 123; a text as it is."""
    if isinstance(value, str):
        return value
    if float(value).is_integer():
        return f"{int(value)}"
    magnitude = abs(value)
    digits = 3 if magnitude < 1 else 2 if magnitude < 10 else 1 if magnitude < 100 else 0
    return f"{value:.{digits}f}"


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies; 0.0 of none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
