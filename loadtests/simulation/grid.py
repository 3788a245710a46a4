"""Named sets of scenarios."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from msgspec.structs import replace

from frontend.balancer import POLICIES
from loadtests.simulation.cluster import ORACLE
from loadtests.simulation.scenario import Fault, Scenario
from loadtests.simulation.workloads import WORKLOADS

ALL_POLICIES = (*POLICIES, ORACLE)
SWEPT_POLICIES = ("marginal-cost", "vllm", "round-robin", ORACLE)
LOADS = (0.6, 0.8, 0.95, 1.1)
AGES_SECONDS = (0.02, 0.1, 0.5)
FRONTEND_SHARES = ((1.0,), (1.0,) * 4, (8.0, 4.0, 2.0, 1.0), (1.0,) * 16)
JUDGED_WORKLOADS = ("uniform", "heavy-tail", "long-prompts", "prefix-groups")
JUDGED_POLICIES = ("marginal-cost", "vllm")
NUM_SEEDS = 5


def judge() -> Iterator[Scenario]:
    """Every policy on every workload, 8 engines, 4 frontends, reports as in production; and what
    decides whether the default policy is ever worse, where reports have a certain age."""
    for workload, policy in product(WORKLOADS, ALL_POLICIES):
        yield Scenario(policy=policy, workload=workload, reports_with_outputs=True)
    for age, workload, policy in product(AGES_SECONDS, JUDGED_WORKLOADS, JUDGED_POLICIES):
        yield Scenario(policy=policy, workload=workload, age_seconds=age)


def quick() -> Iterator[Scenario]:
    """The judged scenarios, 10 s each: does all of it run?"""
    for scenario in judge():
        yield replace(scenario, seconds=10.0)


def load_sweep() -> Iterator[Scenario]:
    """What happens as load rises."""
    for workload, load, policy in product(WORKLOADS, LOADS, SWEPT_POLICIES):
        yield Scenario(policy=policy, workload=workload, load=load)


def frontend_sweep() -> Iterator[Scenario]:
    """1, 4 and 16 frontends, and 4 of unequal traffic."""
    for workload, shares, policy in product(JUDGED_WORKLOADS, FRONTEND_SHARES, SWEPT_POLICIES):
        yield Scenario(policy=policy, workload=workload, frontend_shares=shares)


def age_sweep() -> Iterator[Scenario]:
    """What happens as news gets older."""
    for workload, age, policy in product(JUDGED_WORKLOADS, AGES_SECONDS, SWEPT_POLICIES):
        yield Scenario(policy=policy, workload=workload, age_seconds=age)


def faults() -> Iterator[Scenario]:
    """One engine slow, dead or hung, at a load that the others can bear."""
    for workload, fault, policy in product(JUDGED_WORKLOADS, Fault, SWEPT_POLICIES):
        yield Scenario(policy=policy, workload=workload, fault=fault, load=0.7)


def what_if() -> Iterator[Scenario]:
    """The same requests with two engines more, with one dead, with one slow."""
    for workload in WORKLOADS:
        now = Scenario(policy="marginal-cost", workload=workload)
        yield now
        yield replace(now, engines=now.engines + 2, capacity_engines=now.engines)
        yield replace(now, fault=Fault.DEAD)
        yield replace(now, fault=Fault.SLOW)


class Grid:
    """A set of scenarios, each to be run with some seeds."""

    def __init__(self, make: Callable[[], Iterator[Scenario]], num_seeds: int = NUM_SEEDS) -> None:
        self.num_seeds = num_seeds
        self._make = make

    def scenarios(self, num_seeds: int | None = None) -> Sequence[Scenario]:
        """All runs; seeds count from 0."""
        seeds = range(self.num_seeds if num_seeds is None else num_seeds)
        return [replace(scenario, seed=seed) for scenario in self._make() for seed in seeds]


GRIDS: Mapping[str, Grid] = {
    "judge": Grid(judge),
    "quick": Grid(quick, num_seeds=1),
    "load": Grid(load_sweep),
    "frontends": Grid(frontend_sweep),
    "age": Grid(age_sweep),
    "faults": Grid(faults),
    "what-if": Grid(what_if),
}
"""By the names that the command line knows."""
