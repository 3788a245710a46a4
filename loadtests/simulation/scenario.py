"""What is simulated: one policy on one load, and what happens to the engines."""

import enum

import msgspec

from loadtests.simulation.cost_model import CostModel


class Fault(enum.StrEnum):
    """What one of the engines goes through."""

    EQUAL = "equal"
    """Nothing: all engines are alike."""
    SLOW = "slow engine"
    """Half as fast as the others, all the time."""
    DEAD = "dead engine"
    """Dead from a third of the run to half of it; then a new one is there, its cache empty."""
    HUNG = "hung engine"
    """Stands still after a third of the run, is declared dead 3 s later, and is new 2 s after that."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run depends on; equal scenarios have equal outcomes."""

    policy: str
    """One of `frontend.balancer.POLICIES`, or `oracle`."""
    workload: str
    """One of `loadtests.simulation.workloads.WORKLOADS`, or the name of a trace."""
    load: float | None = None
    """Offered requests as a share of what the engines can serve; None is the workload's own. A
    trace keeps its times without it."""
    engines: int = 8
    capacity_engines: int | None = None
    """For how many engines the load is meant, where it is not for those that are there."""
    frontend_shares: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    """The traffic of each frontend, relative to the others."""
    age_seconds: float = 0.1
    """A report that an engine makes is seen so much later, and there is one so often."""
    fault: Fault = Fault.EQUAL
    seconds: float = 60.0
    """For how long requests come; those that have come are served to their end."""
    seed: int = 0
    cost_model: CostModel = CostModel()
    holds_back: bool = True
    """Whether a request waits in its frontend until an engine has room, as in production."""
    reports_with_outputs: bool = False
    """Whether a frontend also gets a report with every output, at once, as in production."""
    prefill_speed_error: float = 1.0
    """What engines report of their prefill speed, as a multiple of the truth."""
    trace: str | None = None
    """A file whose requests come in place of a workload's."""
    trace_format: str = "mooncake"

    @property
    def title(self) -> str:
        """What happens to the engines, and all else that is not as usual."""
        words = [str(self.fault)]
        if len(set(self.frontend_shares)) > 1:
            words.append("traffic " + ":".join(f"{share:g}" for share in self.frontend_shares))
        if self.reports_with_outputs:
            words.append("reports with outputs")
        if not self.holds_back:
            words.append("nothing held back")
        if self.prefill_speed_error != 1.0:
            words.append(f"prefill speed wrong by {self.prefill_speed_error:g}")
        return ", ".join(words)
