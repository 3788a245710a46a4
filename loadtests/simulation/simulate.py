"""Runs scenarios, one or many."""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

from loadtests.simulation.cluster import SimulatedCluster
from loadtests.simulation.outcome import Outcome, make_outcome
from loadtests.simulation.request import ClientRequest
from loadtests.simulation.scenario import Scenario
from loadtests.simulation.traces import Trace, read_trace
from loadtests.simulation.workloads import WORKLOADS

Progress = Callable[[Outcome], None]


def simulate(scenario: Scenario) -> Outcome:
    """Run one scenario to the end of its last request. Raises TraceError for a trace that is wrong."""
    load, requests = _offered(scenario)
    cluster = SimulatedCluster(scenario, requests)
    cluster.run()
    return make_outcome(scenario, load, cluster.came, cluster.tally)


def simulate_all(
    scenarios: Sequence[Scenario], processes: int = 1, on_outcome: Progress = lambda _: None
) -> list[Outcome]:
    """Run scenarios over so many processes; outcomes are in the order of the scenarios."""
    if processes == 1:
        return [_told(simulate(scenario), on_outcome) for scenario in scenarios]
    # Forked, as nothing here has threads: what is imported need not be imported again.
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        outcomes = pool.map(simulate, scenarios)
        return [_told(outcome, on_outcome) for outcome in outcomes]


def _told(outcome: Outcome, on_outcome: Progress) -> Outcome:
    on_outcome(outcome)
    return outcome


def _offered(scenario: Scenario) -> tuple[float, list[ClientRequest]]:
    """The load as a share of the capacity, and the requests that come."""
    source = random.Random(f"{scenario.workload} {scenario.seed}")
    engines = scenario.capacity_engines or scenario.engines
    if scenario.trace is not None:
        trace = _read_trace(scenario.trace, scenario.trace_format)
        return trace.offered(scenario.load, engines, scenario.seconds, scenario.cost_model)
    workload = WORKLOADS[scenario.workload]
    load = workload.base_load if scenario.load is None else scenario.load
    rate = load * engines * workload.requests_per_second(scenario.cost_model)
    return load, workload.requests(rate, scenario.seconds, scenario.cost_model, source)


@lru_cache(maxsize=1)
def _read_trace(path: str, trace_format: str) -> Trace:
    return read_trace(Path(path), trace_format)
