"""The medians of several runs, and the lines that they are held against."""

from collections.abc import Sequence
from statistics import median

import msgspec

from loadtests.frontend_lab.measurement import Run
from loadtests.frontend_lab.streaming_client import Kind

LEAST_TOKENS_PER_CORE_SECOND = 10_000
BEHIND_EVENTS_PER_TOKEN = 0.9
LEAST_SCALING = 1.7
"""From two frontends to four."""
CORES_FOR_SCALING = 6
"""Four frontends, and the rest of the cluster and the clients beside them."""


class Throughput(msgspec.Struct, frozen=True):
    """So many frontends under one kind of request: the median of each figure over the runs."""

    kind: Kind
    frontends: int
    runs: int
    tokens_per_second: float
    requests_per_second: float
    tokens_per_core_second: float
    core_microseconds_per_token: float
    events_per_token: float
    """Below 1 where frontends are behind, and tell of several tokens at once; beginnings and ends are in it."""
    bytes_per_token: float
    cores_used: float

    @property
    def is_behind(self) -> bool:
        """Whether frontends told of several tokens at once, which makes each cheaper."""
        return self.events_per_token < BEHIND_EVENTS_PER_TOKEN

    @property
    def is_kept(self) -> bool:
        """Whether a core of frontend streams enough."""
        return self.tokens_per_core_second >= LEAST_TOKENS_PER_CORE_SECOND


def summarize(kind: Kind, frontends: int, runs: Sequence[Run]) -> Throughput:
    """The medians of at least one run."""
    return Throughput(
        kind,
        frontends,
        len(runs),
        tokens_per_second=median(run.tokens_per_second for run in runs),
        requests_per_second=median(run.answers / run.seconds for run in runs),
        tokens_per_core_second=median(run.tokens_per_core_second for run in runs),
        core_microseconds_per_token=median(1e6 / run.tokens_per_core_second for run in runs),
        events_per_token=median(run.events / run.tokens for run in runs),
        bytes_per_token=median(run.num_bytes / run.tokens for run in runs),
        cores_used=median(run.core_seconds / run.seconds for run in runs),
    )


class Scaling(msgspec.Struct, frozen=True):
    """The events a second of four frontends that get more than they can tell, over those of two."""

    kind: Kind
    ratio: float

    @property
    def is_kept(self) -> bool:
        """Whether twice the frontends do nearly twice the work."""
        return self.ratio >= LEAST_SCALING


def can_show_scaling(cores: int) -> bool:
    """Whether four frontends have cores to run on."""
    return cores >= CORES_FOR_SCALING


def scaling(kind: Kind, of_two: Sequence[Run], of_four: Sequence[Run]) -> Scaling:
    """The medians of at least one run each, held against each other."""
    rates = [median(run.events_per_second for run in runs) for runs in (of_two, of_four)]
    return Scaling(kind, rates[1] / rates[0])
