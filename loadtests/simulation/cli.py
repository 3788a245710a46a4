"""`python -m loadtests simulate`: what would this cluster do with this load?"""

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import msgspec
from msgspec.structs import replace

from loadtests.arguments import output_file, positive_float, positive_int
from loadtests.simulation.cost_model import CostModel, read_cost_model
from loadtests.simulation.grid import ALL_POLICIES, GRIDS
from loadtests.simulation.judge import Verdict, judge
from loadtests.simulation.outcome import Outcome
from loadtests.simulation.scenario import Fault, Scenario
from loadtests.simulation.simulate import simulate_all
from loadtests.simulation.table import outcome_table, verdict_table
from loadtests.simulation.traces import TRACE_FORMATS, TraceError
from loadtests.simulation.workloads import WORKLOADS

EXIT_MISSED = 1
EXIT_USAGE = 2
DEFAULT_POLICIES = ["marginal-cost", "vllm", "round-robin", "oracle"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--grid", choices=GRIDS, help="a named set of scenarios; all else that says "
                        "what is run but --seeds and --cost-model is then the grid's")  # fmt: skip
    _add_cluster(parser.add_argument_group("cluster"))
    _add_load(parser.add_argument_group("load"))
    output = parser.add_argument_group("output")
    output.add_argument("--processes", type=positive_int, default=1, metavar="N",
                        help="simulate so many scenarios at once (default: %(default)s)")  # fmt: skip
    output.add_argument("--json", type=output_file, metavar="FILE",
                        help="write outcomes and verdicts there")  # fmt: skip
    output.add_argument("--html", type=output_file, metavar="FILE", help="write a page with plots")
    output.add_argument("--plots", type=Path, metavar="DIR", help="write plots into this folder")


def _add_cluster(cluster: "argparse._ArgumentGroup") -> None:
    cluster.add_argument("--engines", type=positive_int, default=8, metavar="N",
                         help="default: %(default)s")  # fmt: skip
    cluster.add_argument("--frontends", type=frontend_shares, default=(1.0,) * 4, metavar="F",
                         help="how many, or their traffic as 8:4:2:1 (default: 4)")  # fmt: skip
    cluster.add_argument("--policy", choices=ALL_POLICIES, nargs="+", default=DEFAULT_POLICIES,
                         help=f"one or several (default: {' '.join(DEFAULT_POLICIES)})")  # fmt: skip
    cluster.add_argument("--age-ms", type=positive_float, default=100.0, metavar="MS",
                         help="how old news is when a frontend gets it (default: %(default)g)")  # fmt: skip
    cluster.add_argument("--fault", type=Fault, choices=list(Fault), default=Fault.EQUAL,
                         help="what one engine goes through (default: equal: nothing)")  # fmt: skip
    cluster.add_argument("--reports-with-outputs", action="store_true",
                         help="reports also travel with every output, at once, as in production")  # fmt: skip
    cluster.add_argument("--cost-model", type=cost_model, default=CostModel(), metavar="FILE",
                         help="JSON: how fast an engine is, and what it holds")  # fmt: skip


def _add_load(load: "argparse._ArgumentGroup") -> None:
    load.add_argument("--workload", choices=WORKLOADS, nargs="+", default=["uniform"],
                      help="one or several (default: uniform)")  # fmt: skip
    load.add_argument("--load", type=positive_float, metavar="SHARE",
                      help="of what the engines can serve, 0.8 is 80 %% (default: the workload's own; "
                      "a trace keeps its times)")  # fmt: skip
    load.add_argument("--seconds", type=positive_float, default=60.0, metavar="N",
                      help="for how long requests come (default: %(default)g)")  # fmt: skip
    load.add_argument("--seeds", type=positive_int, metavar="N",
                      help="runs of each scenario, for intervals (default: 1, or the grid's)")  # fmt: skip
    load.add_argument("--trace", type=Path, metavar="FILE",
                      help="recorded requests in place of a workload")  # fmt: skip
    load.add_argument("--trace-format", choices=TRACE_FORMATS, default="mooncake",
                      help="default: %(default)s")  # fmt: skip


def frontend_shares(text: str) -> tuple[float, ...]:
    """`4` for four frontends of equal traffic, `8:4:2:1` for four of unequal traffic."""
    if ":" not in text:
        return (1.0,) * positive_int(text)
    return tuple(positive_float(part) for part in text.split(":"))


def cost_model(text: str) -> CostModel:
    """The cost model in a JSON file."""
    try:
        return read_cost_model(Path(text).read_bytes())
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from error


def main(arguments: argparse.Namespace) -> int:
    """Simulate, and print what came of it; 1 if a pass line is missed, 2 if a trace is wrong."""
    scenarios = scenarios_of(arguments)
    try:
        outcomes = simulate_all(scenarios, arguments.processes, _Progress(len(scenarios)))
    except TraceError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    verdicts = judge(outcomes) if arguments.grid == "judge" else []
    print(outcome_table(outcomes))
    if verdicts:
        print(f"\n{verdict_table(verdicts)}")
    _write(arguments, outcomes, verdicts)
    return EXIT_MISSED if any(not verdict.passed for verdict in verdicts) else 0


def scenarios_of(arguments: argparse.Namespace) -> Sequence[Scenario]:
    """What these arguments ask for."""
    if arguments.grid is not None:
        scenarios = GRIDS[arguments.grid].scenarios(arguments.seeds)
        return [replace(scenario, cost_model=arguments.cost_model) for scenario in scenarios]
    trace = str(arguments.trace) if arguments.trace is not None else None
    workloads = arguments.workload if arguments.trace is None else [arguments.trace.stem]
    return [
        Scenario(
            policy=policy,
            workload=workload,
            load=arguments.load,
            engines=arguments.engines,
            frontend_shares=arguments.frontends,
            age_seconds=arguments.age_ms / 1000,
            fault=arguments.fault,
            seconds=arguments.seconds,
            seed=seed,
            cost_model=arguments.cost_model,
            reports_with_outputs=arguments.reports_with_outputs,
            trace=trace,
            trace_format=arguments.trace_format,
        )
        for workload, policy, seed in product(
            workloads, arguments.policy, range(arguments.seeds or 1)
        )
    ]


def _write(
    arguments: argparse.Namespace, outcomes: Sequence[Outcome], verdicts: Sequence[Verdict]
) -> None:
    if arguments.json is not None:
        content = msgspec.json.encode({"outcomes": outcomes, "verdicts": verdicts})
        arguments.json.write_bytes(msgspec.json.format(content, indent=2) + b"\n")
    if arguments.html is None and arguments.plots is None:
        return
    # Imported here: the pictures need matplotlib, and tables come without it.
    from loadtests.simulation.report import write_html, write_plots

    if arguments.html is not None:
        write_html(outcomes, verdicts, arguments.html)
    if arguments.plots is not None:
        write_plots(outcomes, arguments.plots)


class _Progress:
    """A line that tells how far it is, on a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def __call__(self, outcome: Outcome) -> None:
        self._done += 1
        if sys.stderr.isatty():
            end = "\n" if self._done == self._total else ""
            text = f"\r\x1b[K{self._done}/{self._total} {outcome.workload}, {outcome.policy}"
            print(text, end=end, file=sys.stderr, flush=True)
