"""What is compared: the figures of a turn, over the rounds, and over those of another server."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from loadtests.comparison.summary import Measure
from loadtests.peers_lab.turn import Turn
from loadtests.report import Distribution

MEBIBYTE = 2**20
THROUGHPUT = "output_tokens_per_second"


class Figure(NamedTuple):
    """One figure of a turn."""

    key: str
    """Its name in JSON, with its unit."""
    heading: str
    of: Callable[[Turn], float | None]
    """None if the turn does not have it."""
    shown_factor: float = 1.0
    """From its unit to the unit of the heading."""
    digits: int = 1


def _p50(values: Distribution | None) -> float | None:
    return None if values is None else values.p50


def _p99(values: Distribution | None) -> float | None:
    return None if values is None else values.p99


FIGURES = (
    Figure(THROUGHPUT, "output tokens/s", lambda t: t.report.output_tokens_per_second),
    Figure("ttft_p50_seconds", "TTFT p50, ms", lambda t: _p50(t.report.ttft_seconds), 1000),
    Figure("ttft_p99_seconds", "TTFT p99, ms", lambda t: _p99(t.report.ttft_seconds), 1000),
    Figure("itl_p50_seconds", "ITL p50, ms", lambda t: _p50(t.report.itl_seconds), 1000, 2),
    Figure("itl_p99_seconds", "ITL p99, ms", lambda t: _p99(t.report.itl_seconds), 1000, 2),
    Figure("tpot_p50_seconds", "TPOT p50, ms", lambda t: _p50(t.report.tpot_seconds), 1000, 2),
    Figure("start_seconds", "start, s", lambda t: t.start_seconds),
    Figure("memory_bytes", "memory, MiB", lambda t: t.memory_bytes, 1 / MEBIBYTE, 0),
)


def measure_of(turns: Sequence[Turn], server: str, figure: Figure) -> Measure | None:
    """A server's figure over the rounds; None if no turn has it."""
    values = [
        value for turn in turns if turn.server == server if (value := figure.of(turn)) is not None
    ]
    return Measure.of(values) if values else None


def ratio_of(turns: Sequence[Turn], server: str, peer: str, figure: Figure) -> Measure | None:
    """A server's figure over a peer's, round by round; None if no round has both, the peer's not 0.

    A round asks the same of both, and at about the same time, so what is special about it cancels.
    """
    ours, theirs = _by_round(turns, server, figure), _by_round(turns, peer, figure)
    ratios = [ours[number] / theirs[number] for number in ours if theirs.get(number)]
    return Measure.of(ratios) if ratios else None


def _by_round(turns: Sequence[Turn], server: str, figure: Figure) -> dict[int, float]:
    return {
        turn.round: value
        for turn in turns
        if turn.server == server and (value := figure.of(turn)) is not None
    }
