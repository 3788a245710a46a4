"""One drill: what is done to a cluster, and what must hold all the same."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from loadtests.drills.stage import Stage


class DrillSkipped(Exception):
    """The drill cannot be done on this machine; the text says why."""


class DrillError(Exception):
    """The drill could not go on: the cluster did not come up, or something never happened."""


class Drill(NamedTuple):
    """A drill of the catalog."""

    name: str
    """As on the command line."""
    promise: str
    """What must hold, in words."""
    run: "Callable[[Stage], Awaitable[None]]"
    harmless: bool = False
    """Needs nothing but HTTP and breaks nothing: may run against a cluster that serves others."""
    seconds: float = 60.0
    """About how long it takes in full."""

    @property
    def limit_seconds(self) -> float:
        """When a run of it is given up."""
        return 120.0 + 4 * self.seconds
