"""The `peers` command: the same load against this project's server and others, turn by turn."""

import argparse
import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from loadtests.arguments import (
    Address,
    named,
    named_url,
    output_file,
    positive_float,
    positive_int,
)
from loadtests.drills.stage import machine_in_words
from loadtests.json_report import STANDARD_OUTPUT, write_json
from loadtests.peers_lab.comparison import PeersComparison, PeersOptions, compare
from loadtests.peers_lab.load import PeerLoad
from loadtests.peers_lab.peer import Peer, PeerError
from loadtests.peers_lab.text import peers_markdown, peers_text, turn_text
from loadtests.peers_lab.turn import Turn, TurnPlan

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class Command(NamedTuple):
    """`--start`."""

    name: str
    words: tuple[str, ...]


class Demand(NamedTuple):
    """`--line`."""

    name: str
    least_ratio: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    servers = parser.add_argument_group("servers", "The first is compared with each other one.")
    servers.add_argument("--server", type=named_url, action="append", required=True,
                         metavar="NAME=URL", help="one to measure; once for each")  # fmt: skip
    servers.add_argument("--start", type=_command, action="append", default=[],
                         metavar="NAME=COMMAND", help="starts that server before each of its "
                         "turns, and it is ended after; split as by a shell, run without")  # fmt: skip
    servers.add_argument("--start-timeout", type=positive_float, default=600.0, metavar="SECONDS",
                         help="longest from a command to the first token (default: %(default)g)")  # fmt: skip
    servers.add_argument("--api-key", default=os.environ.get("OPENAI_API_KEY"),
                         help="for all of them (default: $OPENAI_API_KEY)")  # fmt: skip
    servers.add_argument("--timeout", type=positive_float, default=600.0, metavar="SECONDS",
                         help="longest that an answer may take (default: %(default)g)")  # fmt: skip
    _add_load(parser.add_argument_group("load"))
    parser.add_argument("--line", type=_demand, action="append", default=[], metavar="NAME=RATIO",
                        help="the least that the first one's throughput must be over that of "
                        "this one; exit code 1 if it is less")  # fmt: skip
    parser.add_argument("--json", type=output_file, metavar="FILE",
                        help="write everything there too; - is standard output, alone")  # fmt: skip
    parser.add_argument("--markdown", type=output_file, metavar="FILE", help="write the table")


def _add_load(load: "argparse._ArgumentGroup") -> None:
    load.add_argument("--requests", type=positive_int, default=64, metavar="N",
                      help="of each turn (default: %(default)s)")  # fmt: skip
    load.add_argument("--concurrency", type=positive_int, default=16, metavar="C",
                      help="requests in flight at once (default: %(default)s)")  # fmt: skip
    load.add_argument("--input-tokens", type=positive_int, default=128, metavar="N",
                      help="length of each prompt (default: %(default)s)")  # fmt: skip
    load.add_argument("--output-tokens", type=positive_int, default=128, metavar="N",
                      help="length of each answer (default: %(default)s)")  # fmt: skip
    load.add_argument("--vocabulary-size", type=positive_int, default=1000, metavar="N",
                      help="random token ids are below this (default: %(default)s)")  # fmt: skip
    load.add_argument("--rounds", type=positive_int, default=5, metavar="N",
                      help="turns of each server, each round with other prompts "
                      "(default: %(default)s)")  # fmt: skip
    load.add_argument("--seed", type=int, default=0, help="fixes prompts (default: %(default)s)")


def _command(text: str) -> Command:
    name, value = named(text)
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{value!r}: {error}") from error
    if not words:
        raise argparse.ArgumentTypeError(f"{text!r} has no command")
    return Command(name, tuple(words))


def _demand(text: str) -> Demand:
    name, value = named(text)
    return Demand(name, positive_float(value))


def problem_of(
    servers: Sequence[Address], commands: Sequence[Command], demands: Sequence[Demand]
) -> str | None:
    """What is wrong with the flags together, if anything."""
    names = [server.name for server in servers]
    for flag, given, known in (
        ("--server", names, names),
        ("--start", [command.name for command in commands], names),
        ("--line", [demand.name for demand in demands], names[1:]),
    ):
        for name, number in Counter(given).items():
            if number > 1:
                return f"{flag} {name}: given {number} times"
            if name not in known:
                return f"{flag} {name}: not of {', '.join(known) or 'any other --server'}"
    return None


def main(arguments: argparse.Namespace) -> int:
    """Compare; 0 if every request was answered and every line kept."""
    if problem := problem_of(arguments.server, arguments.start, arguments.line):
        print(problem, file=sys.stderr)
        return EXIT_USAGE
    try:
        comparison = asyncio.run(_compare(_options(arguments)))
    except PeerError as error:
        print(error, file=sys.stderr)
        return EXIT_FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    _write(comparison, arguments)
    return 0 if comparison.passed else EXIT_FAILED


async def _compare(options: PeersOptions) -> PeersComparison:
    """Compare; SIGTERM cancels, so that a server that was started is ended first."""
    task = asyncio.current_task()
    assert task is not None
    with contextlib.suppress(RuntimeError):  # only the main thread's loop may
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await compare(options, _tell)


def _options(arguments: argparse.Namespace) -> PeersOptions:
    commands = {command.name: command.words for command in arguments.start}
    load = PeerLoad(**{name: getattr(arguments, name) for name in PeerLoad._fields})
    return PeersOptions(
        peers=[Peer(name, at, commands.get(name, ())) for name, at in arguments.server],
        plan=TurnPlan(load, arguments.api_key, arguments.timeout, arguments.start_timeout),
        rounds=arguments.rounds,
        lines={demand.name: demand.least_ratio for demand in arguments.line},
    )


def _tell(turn: Turn) -> None:
    print(turn_text(turn), file=sys.stderr, flush=True)


def _write(comparison: PeersComparison, arguments: argparse.Namespace) -> None:
    if arguments.json != STANDARD_OUTPUT:
        print(peers_text(comparison))
    write_json(comparison, arguments.json)
    if arguments.markdown is not None:
        arguments.markdown.write_text(peers_markdown(comparison, machine_in_words()))
