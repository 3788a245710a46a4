"""All that was measured of an engine, as it is written to a file."""

import msgspec

from loadtests.engine_lab.cost import MachineLimits, ModelCost
from loadtests.engine_lab.lines import Line
from loadtests.engine_lab.overhead import Overhead
from loadtests.engine_lab.row import Row


class EngineReport(msgspec.Struct, frozen=True):
    """One run on one machine."""

    model: str
    device: str
    threads: int
    quantization: str
    limits: MachineLimits
    """The most that was seen beside any row."""
    cost: ModelCost
    rows: list[Row]
    overheads: list[Overhead]
    lines: list[Line]
    others_share: float
    """Of the machine's processor time, what other processes took meanwhile."""

    @property
    def is_kept(self) -> bool:
        """Whether no line is missed."""
        return all(line.is_kept for line in self.lines)
