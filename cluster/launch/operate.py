"""The `cluster` command: look at a running cluster, or stop it."""

import argparse
import os
import select
import sys
from collections.abc import Sequence

import msgspec

from cluster.errors import ControlError
from cluster.launch.control_client import ask, find_run
from cluster.launch.exit_codes import ExitCode
from cluster.launch.status import ClusterStatus
from cluster.launch.status_table import render_status


def build_parser() -> argparse.ArgumentParser:
    """The command line of `cluster`."""
    parser = argparse.ArgumentParser(prog="cluster", description="Operate a running cluster.")
    commands = parser.add_subparsers(dest="command", required=True)
    status = commands.add_parser("status", help="Show every process of a cluster.")
    status.add_argument(
        "-v", "--verbose", action="store_true", help="Show how to start each process by hand."
    )
    status.add_argument("--json", action="store_true", help="Print JSON.")
    stop = commands.add_parser("stop", help="Let running requests finish, then end the cluster.")
    stop.add_argument("--now", action="store_true", help="Do not wait for requests.")
    for command in (status, stop):
        command.add_argument(
            "--cluster", metavar="ID", help="Which cluster, where several are running."
        )
    return parser


def show_status(arguments: argparse.Namespace) -> None:
    """Print the status of a cluster. Raises ControlError if it cannot be had."""
    body = ask(find_run(arguments.cluster), "status")
    if arguments.json:
        print(msgspec.json.format(body, indent=2))
    else:
        status = msgspec.json.decode(body, type=ClusterStatus)
        print(render_status(status, arguments.verbose))


def stop(arguments: argparse.Namespace) -> None:
    """End a cluster, and return when it is gone. Raises ControlError if it cannot be told."""
    run_directory = find_run(arguments.cluster)
    status = msgspec.json.decode(ask(run_directory, "status"), type=ClusterStatus)
    try:
        launcher = os.pidfd_open(status.pid)
    except ProcessLookupError:
        raise ControlError(f"cluster {status.id} has ended by itself") from None
    try:
        ask(run_directory, "stop", *(["now"] if arguments.now else []))
        print(f"stopping cluster {status.id} …", file=sys.stderr, flush=True)
        select.select([launcher], [], [])
    finally:
        os.close(launcher)
    print(f"cluster {status.id} has ended")


def operate(arguments: Sequence[str]) -> None:
    """Run one command. Raises ControlError if it fails."""
    given = build_parser().parse_args(arguments)
    {"status": show_status, "stop": stop}[given.command](given)


def main() -> int:
    """The entry point; the exit code is one of `ExitCode`."""
    try:
        operate(sys.argv[1:])
    except ControlError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return ExitCode.OK
