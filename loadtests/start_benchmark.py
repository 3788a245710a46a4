"""`python -m loadtests start`: what a cluster's start takes, in time and in memory, against its limits.

Starts it several times. Each time one token is asked for as soon as there is anybody to ask, and the
processes are looked at once all of them are ready.
"""

import argparse
import asyncio
import re
import sys
import time
from typing import NamedTuple

import msgspec
import psutil

from cluster.config import parse_bytes
from loadtests.arguments import output_file, positive_int
from loadtests.client import StreamingClient
from loadtests.drills.cluster import START_SECONDS, Cluster
from loadtests.drills.drill import DrillError
from loadtests.drills.stage import machine_in_words
from loadtests.drills.waiting import wait_until
from loadtests.http_client import BrokenConnection, HttpClient
from loadtests.json_report import STANDARD_OUTPUT, write_json
from loadtests.start_report import Footprint, Start, StartReport, start_lines
from loadtests.workload import token_completion

KV_CACHE_MEMORY = "256MiB"
ASK_AGAIN_SECONDS = 0.05

_URL = re.compile(r"cluster \S+ on (\S+), run directory")
_PHASE = re.compile(r"(?P<role>[a-z]+)(?: \d+)?\.1 is (?P<phase>[a-z][a-z ]*)")
"""What `launch` logs, of the first incarnation of each process."""


class StartOptions(NamedTuple):
    """What the command was asked for."""

    dp: int
    frontends: int
    simulated: bool

    @property
    def flags(self) -> list[str]:
        """Those of `launch`."""
        kind = ["--engine=simulated"] if self.simulated else []
        return [
            f"--dp={self.dp}", f"--frontends={self.frontends}", *kind,
            f"--kv-cache-memory={KV_CACHE_MEMORY}", "--max-model-len=2048",
        ]  # fmt: skip


def measure_start(options: StartOptions) -> Start:
    """Start a cluster, measure, end it. Raises DrillError if it does not come up or answer."""
    clock, started_at = time.time(), time.monotonic()
    cluster = Cluster(*options.flags)
    try:
        url = wait_until(lambda: _url_in_log(cluster), START_SECONDS, "launch says where it serves")
        answered_at = asyncio.run(first_token_at(url, started_at + START_SECONDS))
        cluster.wait_until_ready()
        return Start(
            first_answer_seconds=answered_at - started_at,
            phase_seconds=phase_seconds(cluster.log(), clock),
            footprints=_footprints(cluster),
        )
    finally:
        cluster.close()


def _url_in_log(cluster: Cluster) -> str:
    """What `launch` says of it first; empty before that."""
    log = cluster.log()
    if cluster.process.poll() is not None:
        raise DrillError(f"launch has ended:\n{log}")
    found = _URL.search(log)
    return found[1] if found else ""


async def first_token_at(url: str, deadline: float) -> float:
    """The time at which the server's first token arrived; asks until there is one.

    Raises DrillError, with the last answer, if there is none until `deadline`.
    """
    while True:
        client = StreamingClient(HttpClient(url), max(0.0, deadline - time.monotonic()))
        try:
            model = await client.first_model()
            record = await client.complete(token_completion(model, [1], 1), time.monotonic())
            if record.error_kind is None:
                return record.arrivals[0].at
            answer = f"{record.error_kind}: {record.error_detail}"
        except BrokenConnection as error:
            answer = str(error)
        if time.monotonic() >= deadline:
            raise DrillError(f"no token came: {answer}")
        await asyncio.sleep(ASK_AGAIN_SECONDS)


class _LogLine(msgspec.Struct):
    time: float = 0.0
    message: str = ""


def phase_seconds(log: str, started_at: float) -> dict[str, float]:
    """When the last process of each role came to each phase, in order of time, by launch's log.

    `started_at` is a time of the clock that the log has.
    """
    seconds: dict[str, float] = {}
    for line in log.splitlines():
        try:
            entry = msgspec.json.decode(line, type=_LogLine)
        except msgspec.MsgspecError:
            continue  # a line that is for people
        if found := _PHASE.fullmatch(entry.message):
            name = f"{found['role']} {found['phase']}"
            seconds[name] = max(seconds.get(name, 0.0), entry.time - started_at)
    return dict(sorted(seconds.items(), key=lambda item: item[1]))


def _footprints(cluster: Cluster) -> list[Footprint]:
    whole_cache_bytes = parse_bytes(KV_CACHE_MEMORY)
    return [
        footprint_of(cluster.process.pid, "launch"),
        *(
            footprint_of(
                process.pid, process.role, round((process.kv_cache_usage or 0) * whole_cache_bytes)
            )
            for process in cluster.status().processes
        ),
    ]


def footprint_of(pid: int, role: str, kv_bytes: int = 0) -> Footprint:
    """What a running process has used and holds."""
    process = psutil.Process(pid)
    memory, times = process.memory_full_info(), process.cpu_times()
    seconds = times.user + times.system
    return Footprint(role, seconds, memory.pss, memory.uss, memory.rss, kv_bytes)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument("--repeats", type=positive_int, default=5, metavar="N",
                        help="starts, of which the median counts (default: %(default)s)")  # fmt: skip
    parser.add_argument("--dp", type=positive_int, default=2, metavar="N",
                        help="engines (default: %(default)s)")  # fmt: skip
    parser.add_argument("--frontends", type=positive_int, default=2, metavar="N",
                        help="HTTP processes (default: %(default)s)")  # fmt: skip
    parser.add_argument("--simulated", action="store_true",
                        help="simulated engines in place of the embedded model")  # fmt: skip
    parser.add_argument("--json", type=output_file, metavar="FILE",
                        help="write the report there too; - is standard output, alone")  # fmt: skip


def main(arguments: argparse.Namespace) -> int:
    """Print what starts took; 0 if the limits hold, 1 if one does not."""
    options = StartOptions(arguments.dp, arguments.frontends, arguments.simulated)
    try:
        starts = [measure_start(options) for _ in range(arguments.repeats)]
    except DrillError as error:
        print(error, file=sys.stderr)
        return 1
    report = StartReport(options.flags, starts)
    if arguments.json != STANDARD_OUTPUT:
        print(*start_lines(report, machine_in_words()), sep="\n")
    write_json(report, arguments.json)
    return 0 if report.is_kept else 1
