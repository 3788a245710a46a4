"""One frontend beside another server: the processor time of a streamed token, turn by turn."""

from collections.abc import Sequence
from statistics import median

import msgspec

from loadtests.frontend_lab.measurement import LoadOptions, Run, measure_run
from loadtests.frontend_lab.streaming_client import Kind
from loadtests.frontend_lab.streaming_server import StreamingServer
from loadtests.frontend_lab.summary import Throughput, summarize

LEAST_RATIO = 3.0


class PeerComparison(msgspec.Struct, frozen=True):
    """What one core of each streams, under one kind of request."""

    name: str
    ours: Throughput
    theirs: Throughput
    ratios: list[float]
    """Ours over theirs, of each pair of turns."""

    @property
    def ratio(self) -> float:
        """The median."""
        return median(self.ratios)

    @property
    def is_kept(self) -> bool:
        """Whether a core of ours streams so many times as much."""
        return self.ratio >= LEAST_RATIO


def compare(
    name: str, ours: StreamingServer, theirs: StreamingServer,
    kind: Kind, repeats: int, options: LoadOptions,
) -> PeerComparison:  # fmt: skip
    """Each in turn, who was second goes first the next time. Raises DrillError."""
    runs: tuple[list[Run], list[Run]] = ([], [])
    for repeat in range(repeats):
        turns = ((ours, runs[0]), (theirs, runs[1]))
        for server, its_runs in turns[:: -1 if repeat % 2 else 1]:
            its_runs.append(measure_run(server, kind, options))
    return PeerComparison(
        name, summarize(kind, 1, runs[0]), summarize(kind, 1, runs[1]), ratios_of(*runs)
    )


def ratios_of(ours: Sequence[Run], theirs: Sequence[Run]) -> list[float]:
    """Tokens of a core-second, ours over theirs, pair by pair."""
    return [
        mine.tokens_per_core_second / other.tokens_per_core_second
        for mine, other in zip(ours, theirs, strict=True)
    ]
