"""The lines that the engine is held to."""

from collections.abc import Iterable, Iterator

import msgspec

from loadtests.engine_lab.overhead import Overhead
from loadtests.engine_lab.row import Row

DECODE_CONTEXT = 256
"""Decode steps of other contexts are measured, and not judged."""
DECODE_RATIOS = {1: 2.5, 8: 3.0, 32: 1.8}
"""By batch: so many times the speed of `generate`, at least."""
PREFILL_TOKENS = 512
PREFILL_RATIO = 1.15
LIMIT_SHARES = {1: 0.5, 32: 0.75}
"""By batch: so much of what the machine's limits allow, at least."""
OVERHEAD_SHARE = 0.05
"""Of a step on a CPU, outside of the forward pass."""
SIMULATED_OVERHEAD_SECONDS = 0.001


class Line(msgspec.Struct, frozen=True):
    """One of them, and what was measured."""

    label: str
    value: float
    limit: float
    unit: str
    is_least: bool
    """Whether the value must reach the limit; or else stay below it."""
    is_kept: bool


def at_least(label: str, value: float, limit: float, unit: str) -> Line:
    """A line that is to be reached."""
    return Line(label, value, limit, unit, is_least=True, is_kept=value >= limit)


def below(label: str, value: float, limit: float, unit: str) -> Line:
    """A line that is not to be reached."""
    return Line(label, value, limit, unit, is_least=False, is_kept=value < limit)


def lines_of(rows: Iterable[Row], overheads: Iterable[Overhead], device: str) -> list[Line]:
    """All lines about what was measured."""
    return [
        *(line for row in rows for line in _row_lines(row)),
        *(line for overhead in overheads for line in _overhead_lines(overhead, device)),
    ]


def _row_lines(row: Row) -> Iterator[Line]:
    ratio = _demanded_ratio(row)
    if ratio is not None and row.ratio is not None:
        yield at_least(f"{row.label}: to generate", row.ratio, ratio, "×")
    share = LIMIT_SHARES.get(row.batch)
    if row.kind == "decode" and row.context == DECODE_CONTEXT and share is not None:
        yield at_least(f"{row.label}: of the limit", 100 * row.share, 100 * share, "%")


def _demanded_ratio(row: Row) -> float | None:
    if row.kind == "prefill":
        return PREFILL_RATIO if row.context == PREFILL_TOKENS else None
    return DECODE_RATIOS.get(row.batch) if row.context == DECODE_CONTEXT else None


def _overhead_lines(overhead: Overhead, device: str) -> Iterator[Line]:
    if overhead.runner == "simulated":
        yield below(
            f"outside of the forward pass, batch {overhead.batch}, simulated",
            1000 * overhead.outside_seconds, 1000 * SIMULATED_OVERHEAD_SECONDS, "ms",
        )  # fmt: skip
    elif device == "cpu":
        yield below(
            f"outside of the forward pass, batch {overhead.batch}",
            100 * overhead.share, 100 * OVERHEAD_SHARE, "% of a step",
        )  # fmt: skip
