"""What more engines cost the rest of the cluster, at the same small load for each: the `scale` command."""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from loadtests.arguments import output_file, positive_float, positive_int, positive_ints
from loadtests.arrivals import poisson_arrivals
from loadtests.client import StreamingClient
from loadtests.drills.cluster import Cluster
from loadtests.drills.drill import DrillError
from loadtests.driver import Driver
from loadtests.frontend_lab.coordinator_meter import CoordinatorMeter, CoordinatorWork
from loadtests.http_client import BrokenConnection, HttpClient
from loadtests.json_report import STANDARD_OUTPUT, write_json
from loadtests.record import RequestRecord
from loadtests.report import distribution
from loadtests.workload import random_token_prompts

START_SECONDS = 900.0
"""Of many processes on few cores."""
VOCABULARY_SIZE = 1000
REQUEST_SECONDS = 120.0


class ScaleOptions(NamedTuple):
    """The load of each engine, and how long it lasts."""

    frontends: int = 2
    rate_per_engine: float = 0.5
    input_tokens: int = 32
    output_tokens: int = 16
    seconds: float = 20.0
    step_seconds: float = 0.02


class ScaleRun(msgspec.Struct, frozen=True):
    """So many engines under that load."""

    engines: int
    requests: int
    failed: int
    goodput: float
    """Tokens of whole answers over those that were asked for."""
    ttft_p50_seconds: float
    ttft_p99_seconds: float
    coordinator: CoordinatorWork

    @property
    def is_whole(self) -> bool:
        """Whether every request got its whole answer."""
        return not self.failed


def scale_flags(engines: int, options: ScaleOptions) -> list[str]:
    """The flags of a cluster of small simulated engines."""
    return [
        f"--dp={engines}",
        f"--frontends={options.frontends}",
        "--engine=simulated",
        "--kv-cache-memory=64MiB",
        "--max-model-len=512",
        f"--simulated-step-seconds={options.step_seconds}",
        "--simulated-request-seconds=0",
        "--log-level=warning",
    ]


def measure_scales(counts: Sequence[int], options: ScaleOptions) -> Iterator[ScaleRun]:
    """One cluster after the other. Raises DrillError."""
    for engines in counts:
        cluster = Cluster(*scale_flags(engines, options))
        try:
            cluster.wait_until_ready(START_SECONDS)
            yield asyncio.run(measure_scale(cluster, engines, options))
        finally:
            cluster.close()


async def measure_scale(cluster: Cluster, engines: int, options: ScaleOptions) -> ScaleRun:
    """Send the load of so many engines. Raises DrillError if the server is not there."""
    url = await asyncio.to_thread(lambda: cluster.url)
    client = StreamingClient(HttpClient(url), REQUEST_SECONDS)
    rate = options.rate_per_engine * engines
    requests = max(1, round(rate * options.seconds))
    try:
        asks = random_token_prompts(
            await client.first_model(), requests, input_tokens=options.input_tokens,
            output_tokens=options.output_tokens, prefix_share=0.0,
            vocabulary_size=VOCABULARY_SIZE, seed=0,
        )  # fmt: skip
    except BrokenConnection as error:
        raise DrillError(f"{url}: {error}") from error
    driver = Driver(client.complete, asks)
    async with CoordinatorMeter(cluster) as meter:
        await driver.open_loop(poisson_arrivals(rate, requests, seed=0))
        work = meter.read()
    return scale_run(engines, options, driver.progress.records, work)


def scale_run(
    engines: int, options: ScaleOptions, records: list[RequestRecord], work: CoordinatorWork
) -> ScaleRun:
    """The figures of a run with these records. Raises DrillError if no answer was whole."""
    whole = [record for record in records if record.error_kind is None]
    ttft = distribution([r.ttft_seconds for r in whole if r.ttft_seconds is not None])
    if ttft is None:
        example = records[0].error_detail if records else "nothing was sent"
        raise DrillError(f"no request of {len(records)} got its answer, e.g. {example}")
    told = sum(record.output_tokens for record in whole)
    return ScaleRun(
        engines,
        len(records),
        len(records) - len(whole),
        told / (len(records) * options.output_tokens),
        ttft.p50,
        ttft.p99,
        work,
    )


SCALE_HEAD = (
    "engines  requests  goodput   TTFT p50   TTFT p99  coordinator  views to one subscriber"
    "  a report  (ratios to the first row)"
)


def scale_line(run: ScaleRun, first: ScaleRun) -> str:
    """A row below `SCALE_HEAD`, with its ratios to the first."""
    work = run.coordinator
    ratios = (
        f"TTFT p50 × {run.ttft_p50_seconds / first.ttft_p50_seconds:.2f}, "
        f"p99 × {run.ttft_p99_seconds / first.ttft_p99_seconds:.2f}, "
        f"coordinator × {_ratio(work.core_share, first.coordinator.core_share)}, "
        f"views × {_ratio(work.view_bytes_per_second, first.coordinator.view_bytes_per_second)}"
    )
    return (
        f"{run.engines:>7}{run.requests:>10}{run.goodput:>9.1%}"
        f"{run.ttft_p50_seconds * 1000:>8.1f} ms{run.ttft_p99_seconds * 1000:>8.1f} ms"
        f"{work.core_share:>8.1%} core{work.view_bytes_per_second / 1000:>20.1f} kB/s"
        f"{work.report_bytes:>8.0f} B  {ratios}"
    )


def _ratio(value: float, first: float) -> str:
    return f"{value / first:.2f}" if first else "?"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    given = ScaleOptions()
    parser.add_argument("--engines", type=positive_ints, default=(1, 4, 16, 64), metavar="N,N",
                        help="numbers of simulated engines, one cluster each (default: 1,4,16,64)")  # fmt: skip
    parser.add_argument("--frontends", type=positive_int, default=given.frontends, metavar="N",
                        help="of each cluster (default: %(default)s)")  # fmt: skip
    parser.add_argument("--rate-per-engine", type=positive_float, default=given.rate_per_engine,
                        metavar="R", help="requests a second, Poisson (default: %(default)g)")  # fmt: skip
    parser.add_argument("--input-tokens", type=positive_int, default=given.input_tokens, metavar="N",
                        help="length of a prompt (default: %(default)s)")  # fmt: skip
    parser.add_argument("--output-tokens", type=positive_int, default=given.output_tokens, metavar="N",
                        help="length of an answer (default: %(default)s)")  # fmt: skip
    parser.add_argument("--seconds", type=positive_float, default=given.seconds,
                        help="length of the load (default: %(default)g)")  # fmt: skip
    parser.add_argument("--step-seconds", type=positive_float, default=given.step_seconds,
                        help="pace of an engine (default: %(default)g)")  # fmt: skip
    parser.add_argument("--json", type=output_file, metavar="FILE",
                        help="write the figures there too; - is standard output, alone")  # fmt: skip


def main(arguments: argparse.Namespace) -> int:
    """Print a row for each number of engines; 0 if every request got its whole answer."""
    options = ScaleOptions(**{name: getattr(arguments, name) for name in ScaleOptions._fields})
    is_quiet = arguments.json == STANDARD_OUTPUT
    runs: list[ScaleRun] = []
    try:
        for run in measure_scales(arguments.engines, options):
            runs.append(run)
            if not is_quiet:
                if len(runs) == 1:
                    print(SCALE_HEAD)
                print(scale_line(run, runs[0]), flush=True)
    except DrillError as error:
        print(error, file=sys.stderr)
        return 1
    write_json(runs, arguments.json)
    return 0 if all(run.is_whole for run in runs) else 1
