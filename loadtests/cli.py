"""The command line of the load tests."""

import argparse
import asyncio
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from loadtests.arguments import output_file, positive_float, positive_int, share, url
from loadtests.http_client import BrokenConnection
from loadtests.json_report import STANDARD_OUTPUT, write_json
from loadtests.report_text import report_text
from loadtests.run import RunOptions, run
from loadtests.workload import WorkloadError

EXIT_ERRORS = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class Command(NamedTuple):
    """A command with a module of its own, which has `add_arguments(parser)` and `main(arguments)`."""

    module: str
    help: str


COMMANDS = {
    "compare-policies": Command(
        "loadtests.comparison.cli",
        "start clusters with one routing policy after the other, under the same loads",
    ),
    "simulate": Command(
        "loadtests.simulation.cli",
        "compare routing policies in a simulated cluster, without processes",
    ),
    "balancer": Command(
        "loadtests.balancer_benchmark",
        "measure what a routing decision costs, and check its limits",
    ),
    "interference": Command(
        "loadtests.interference",
        "measure what large requests cost the streams of others, and check the limit",
    ),
    "frontend": Command(
        "loadtests.frontend_benchmark",
        "measure what a streamed token costs the frontends, and check its limits",
    ),
    "scale": Command(
        "loadtests.scale_benchmark",
        "measure what more engines cost the rest of the cluster",
    ),
    "engine": Command(
        "loadtests.engine_benchmark",
        "measure one engine in process, beside transformers and the limits of the machine",
    ),
    "peers": Command(
        "loadtests.peers",
        "send the same load to this project's server and to others, turn by turn",
    ),
    "start": Command(
        "loadtests.start_benchmark",
        "start a cluster several times, measure time and memory, and check their limits",
    ),
    "fit": Command(
        "loadtests.fit", "write a cost model for simulations, from what a running cluster measured"
    ),
}
"""Loaded when they are asked for: who sends requests needs no cluster on the same machine."""


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of `python -m loadtests`; with `only`, other commands have no arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtests",
        description="Load tests against a running server, and measurements of routing.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    _add_run(commands.add_parser("run", help="send streaming requests and report what came back"))
    for name, command in COMMANDS.items():
        its_parser = commands.add_parser(name, help=command.help)
        if only in (None, name):
            import_module(command.module).add_arguments(its_parser)
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    server = parser.add_argument_group("server")
    server.add_argument("--url", type=url, default="http://127.0.0.1:8000")
    server.add_argument("--model", help="default: the first that the server lists")
    server.add_argument(
        "--api-key", default=os.environ.get("OPENAI_API_KEY"), help="default: $OPENAI_API_KEY"
    )
    server.add_argument("--timeout", type=positive_float, default=600.0, metavar="SECONDS",
                        help="longest that an answer may take (default: %(default)g)")  # fmt: skip
    load = parser.add_argument_group("load")
    load.add_argument("--requests", type=positive_int, default=64, metavar="N",
                      help="how many to send (default: %(default)s)")  # fmt: skip
    pace = load.add_mutually_exclusive_group()
    pace.add_argument("--concurrency", type=positive_int, default=16, metavar="C",
                      help="requests in flight at once (default: %(default)s)")  # fmt: skip
    pace.add_argument("--rate", type=positive_float, metavar="R",
                      help="instead: requests a second, Poisson arrivals, however many wait")  # fmt: skip
    load.add_argument("--seed", type=int, default=0,
                      help="fixes prompts and arrivals (default: %(default)s)")  # fmt: skip
    _add_workload(parser.add_argument_group("workload", "Random token ids, unless told otherwise."))
    parser.add_argument("--json", type=output_file, metavar="FILE",
                        help="write the report there too; - is standard output, alone")  # fmt: skip


def _add_workload(workload: "argparse._ArgumentGroup") -> None:
    workload.add_argument("--input-tokens", type=positive_int, default=128, metavar="N",
                          help="length of a random prompt (default: %(default)s)")  # fmt: skip
    workload.add_argument("--output-tokens", type=positive_int, default=128, metavar="N",
                          help="length of an answer to a random prompt, and the longest of others "
                          "(default: %(default)s)")  # fmt: skip
    workload.add_argument("--prefix-share", type=share, default=0.0, metavar="SHARE",
                          help="part of a random prompt that all have in common, 0 to 1")  # fmt: skip
    workload.add_argument("--vocabulary-size", type=positive_int, default=1000, metavar="N",
                          help="random token ids are below this (default: %(default)s)")  # fmt: skip
    workload.add_argument("--prompts", type=Path, metavar="FILE",
                          help="a prompt a line: text, or JSON with `prompt` or `messages`")  # fmt: skip
    workload.add_argument("--chat", action="store_true",
                          help="chat: made-up questions, or the file's prompts as messages")  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 if all went as it must, 1 if not, 2 for wrong usage."""
    given = sys.argv[1:] if arguments is None else arguments
    parsed = build_parser(only=given[0] if given else "").parse_args(given)
    if parsed.command in COMMANDS:
        return int(import_module(COMMANDS[parsed.command].module).main(parsed))
    return _run(parsed)


def _run(parsed: argparse.Namespace) -> int:
    """Drive a running server; 0 if every request got its whole answer."""
    options = RunOptions(
        url=parsed.url,
        api_key=parsed.api_key,
        model=parsed.model,
        requests=parsed.requests,
        concurrency=parsed.concurrency,
        rate_per_second=parsed.rate,
        input_tokens=parsed.input_tokens,
        output_tokens=parsed.output_tokens,
        prefix_share=parsed.prefix_share,
        vocabulary_size=parsed.vocabulary_size,
        prompts=parsed.prompts,
        chat=parsed.chat,
        seed=parsed.seed,
        timeout_seconds=parsed.timeout,
    )
    try:
        report = asyncio.run(run(options))
    except WorkloadError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except BrokenConnection as error:
        print(f"{options.url}: {error}", file=sys.stderr)
        return EXIT_ERRORS
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    if parsed.json != STANDARD_OUTPUT:
        print(report_text(report))
    write_json(report, parsed.json)
    return EXIT_ERRORS if report.errors else 0
