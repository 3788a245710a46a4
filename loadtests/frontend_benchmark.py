"""What a streamed token costs the frontends: the `frontend` command."""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

import msgspec

from loadtests.arguments import (
    Address,
    named_url,
    output_file,
    positive_int,
    positive_ints,
    share,
)
from loadtests.drills.cluster import Cluster
from loadtests.drills.drill import DrillError
from loadtests.frontend_lab.measurement import LoadOptions, Run, cluster_flags, measure_run
from loadtests.frontend_lab.peer_comparison import PeerComparison, compare
from loadtests.frontend_lab.profiling import profile_frontend
from loadtests.frontend_lab.stage_cost import StageCost
from loadtests.frontend_lab.streaming_client import PATHS, Kind
from loadtests.frontend_lab.streaming_server import frontends_of, server_at
from loadtests.frontend_lab.summary import (
    Scaling,
    Throughput,
    can_show_scaling,
    scaling,
    summarize,
)
from loadtests.frontend_lab.text import (
    THROUGHPUT_HEAD,
    comparison_line,
    no_scaling_line,
    scaling_line,
    stage_lines,
    throughput_line,
)
from loadtests.json_report import STANDARD_OUTPUT, write_json

WARM_UP_TOKENS = 32
MANY_STREAMS, SHORT_STEP_SECONDS, MANY_ENGINES = 384, 0.005, 4
"""More tokens a second than four frontends can tell of one by one."""


class Report(msgspec.Struct):
    """Everything that was measured."""

    load: LoadOptions
    cores: int
    throughputs: list[Throughput] = []
    scalings: list[Scaling] = []
    comparisons: list[PeerComparison] = []
    stages: list[StageCost] = []

    @property
    def is_kept(self) -> bool:
        """Whether no line is missed."""
        return (
            all(each.is_kept for each in self.throughputs)
            and all(each.is_kept for each in self.scalings)
            and all(each.is_kept for each in self.comparisons)
        )


def measure_throughputs(
    counts: Sequence[int], kinds: Sequence[Kind], repeats: int, options: LoadOptions
) -> Iterator[Throughput]:
    """Each kind of request with each number of frontends. Raises DrillError."""
    for frontends in counts:
        for kind, runs in measure_runs(frontends, kinds, repeats, options):
            yield summarize(kind, frontends, runs)


def measure_scalings(
    kinds: Sequence[Kind], repeats: int, options: LoadOptions
) -> Iterator[Scaling]:
    """Four frontends beside two, with more to do than they can. Raises DrillError."""
    options = msgspec.structs.replace(
        options, streams=MANY_STREAMS, step_seconds=SHORT_STEP_SECONDS, engines=MANY_ENGINES
    )
    of_two = dict(measure_runs(2, kinds, repeats, options))
    for kind, of_four in measure_runs(4, kinds, repeats, options):
        yield scaling(kind, of_two[kind], of_four)


def measure_runs(
    frontends: int, kinds: Sequence[Kind], repeats: int, options: LoadOptions
) -> Iterator[tuple[Kind, list[Run]]]:
    """So many runs of each kind in one cluster. Raises DrillError."""
    cluster = Cluster(*cluster_flags(frontends, options))
    try:
        server = frontends_of(cluster.wait_until_ready())
        for kind in kinds:
            measure_run(server, kind, _short(options))
            yield kind, [measure_run(server, kind, options) for _ in range(repeats)]
    finally:
        cluster.close()


def compare_with(
    peer: Address, kinds: Sequence[Kind], repeats: int, options: LoadOptions
) -> Iterator[PeerComparison]:
    """One frontend beside a server that is running. Raises DrillError."""
    theirs = server_at(peer.url)
    cluster = Cluster(*cluster_flags(1, options))
    try:
        ours = frontends_of(cluster.wait_until_ready())
        for kind in kinds:
            for server in (ours, theirs):
                measure_run(server, kind, _short(options))
            yield compare(peer.name, ours, theirs, kind, repeats, options)
    finally:
        cluster.close()


def _short(options: LoadOptions) -> LoadOptions:
    """To warm up."""
    return msgspec.structs.replace(options, output_tokens=WARM_UP_TOKENS)


def measure_stages(repeats: int, *flags: str) -> list[StageCost]:
    """A token's way taken apart, in a process of its own. Raises DrillError."""
    cluster = Cluster(*cluster_flags(1, LoadOptions()))
    try:
        config = cluster.wait_until_ready().run_directory / "cluster.json"
        content = config.read_bytes()
    finally:
        cluster.close()
    return stages_of_config(content, repeats, *flags)


def stages_of_config(config: bytes, repeats: int, *flags: str) -> list[StageCost]:
    """The same with the configuration of a cluster at hand. Raises DrillError."""
    measuring = subprocess.run(
        [sys.executable, "-P", "-m", "loadtests.frontend_lab.stages", "/dev/stdin", str(repeats), *flags],
        input=config, stdout=subprocess.PIPE, check=False,
    )  # fmt: skip
    if measuring.returncode:
        raise DrillError(f"the stages could not be measured: exit code {measuring.returncode}")
    return msgspec.json.decode(measuring.stdout, type=list[StageCost])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    given = LoadOptions()
    parser.add_argument("--frontends", type=positive_ints, default=(1, 2, 4), metavar="N,N",
                        help="numbers of frontends, one cluster each (default: 1,2,4)")  # fmt: skip
    parser.add_argument("--kinds", type=kinds, default=list(PATHS), metavar="KIND,KIND",
                        help="completions, chat (default: both)")  # fmt: skip
    parser.add_argument("--repeats", type=positive_int, default=5, metavar="N",
                        help="runs of which the median counts (default: %(default)s)")  # fmt: skip
    parser.add_argument("--engines", type=positive_int, default=given.engines, metavar="N",
                        help="simulated ones (default: %(default)s)")  # fmt: skip
    parser.add_argument("--streams", type=positive_int, default=given.streams, metavar="N",
                        help="answers at once (default: %(default)s)")  # fmt: skip
    parser.add_argument("--output-tokens", type=positive_int, default=given.output_tokens, metavar="N",
                        help="length of an answer (default: %(default)s)")  # fmt: skip
    parser.add_argument("--answers-per-stream", type=positive_int, default=given.answers_per_stream,
                        metavar="N", help="one after the other (default: %(default)s)")  # fmt: skip
    parser.add_argument("--clients", type=positive_int, default=given.clients, metavar="N",
                        help="processes of clients (default: %(default)s)")  # fmt: skip
    parser.add_argument("--step-seconds", type=share, default=given.step_seconds,
                        metavar="SECONDS",
                        help="of an engine; the less, the more tokens a second there are to be told "
                        "of (default: %(default)g)")  # fmt: skip
    parser.add_argument("--peer", type=named_url, action="append", default=[], metavar="NAME=URL",
                        help="a server on this machine, to be measured beside one frontend, turn by turn, "
                        "in place of all else: the processes that listen there; once for each")  # fmt: skip
    parser.add_argument("--only-stages", action="store_true",
                        help="no cluster runs, only a token's way taken apart")  # fmt: skip
    parser.add_argument("--profile", type=output_file, metavar="FILE",
                        help="one more run of one frontend under cProfile, whose profile goes there")  # fmt: skip
    parser.add_argument("--json", type=output_file, metavar="FILE",
                        help="write the figures there too; - is standard output, alone")  # fmt: skip


def kinds(text: str) -> list[Kind]:
    """Kinds of requests, with commas between."""
    try:
        return msgspec.convert(text.split(","), list[Kind])
    except msgspec.ValidationError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of {', '.join(PATHS)}") from None


def main(arguments: argparse.Namespace) -> int:
    """Print what was measured; 0 if all lines are reached, 1 if one is not."""
    options = LoadOptions(
        **{name: getattr(arguments, name) for name in LoadOptions.__struct_fields__}
    )
    is_quiet = arguments.json == STANDARD_OUTPUT
    report = Report(options, os.cpu_count() or 1)
    try:
        for line in _measure_all(arguments, report):
            if not is_quiet:
                print(line, flush=True)
    except DrillError as error:
        print(error, file=sys.stderr)
        return 1
    write_json(report, arguments.json)
    return 0 if report.is_kept else 1


def _measure_all(arguments: argparse.Namespace, report: Report) -> Iterator[str]:
    """Fill the report, and give its lines as they come."""
    if arguments.peer:
        for peer in arguments.peer:
            for compared in compare_with(peer, arguments.kinds, arguments.repeats, report.load):
                report.comparisons.append(compared)
                yield comparison_line(compared)
        return
    if not arguments.only_stages:
        yield THROUGHPUT_HEAD
        for found in measure_throughputs(
            arguments.frontends, arguments.kinds, arguments.repeats, report.load
        ):
            report.throughputs.append(found)
            yield throughput_line(found)
        if not can_show_scaling(report.cores):
            yield no_scaling_line(report.cores)
        elif {2, 4} <= {*arguments.frontends}:
            report.scalings += measure_scalings(arguments.kinds, arguments.repeats, report.load)
            yield from map(scaling_line, report.scalings)
    report.stages = measure_stages(arguments.repeats)
    yield "\nof a token's way, alone and in processor time:"
    yield from stage_lines(report.stages)
    if arguments.profile is not None:
        yield profile_frontend(arguments.profile, report.load)
