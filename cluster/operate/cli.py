"""The `cluster` command: look at a running cluster, operate it, drill it."""

import argparse
import sys
from collections.abc import Sequence

from cluster.errors import ControlError
from cluster.launch.exit_codes import ExitCode
from cluster.operate.decisions import add_decisions, show_decisions
from cluster.operate.looking import show_status
from cluster.operate.operations import add_operations, drain, restart, scale
from cluster.operate.stopping import stop
from loadtests.drills.arguments import add_arguments as add_drill_arguments


def build_parser() -> argparse.ArgumentParser:
    """The command line of `cluster`."""
    parser = argparse.ArgumentParser(prog="cluster", description="Operate a running cluster.")
    commands = parser.add_subparsers(dest="command", required=True)
    status = commands.add_parser("status", help="Show every process of a cluster.")
    status.add_argument(
        "-v", "--verbose", action="store_true", help="Show how to start each process by hand."
    )
    status.add_argument("--json", action="store_true", help="Print JSON.")
    ending = commands.add_parser("stop", help="Let running requests finish, then end the cluster.")
    ending.add_argument("--now", action="store_true", help="Do not wait for requests.")
    for command in (status, add_decisions(commands), ending, *add_operations(commands)):
        command.add_argument(
            "--cluster", metavar="ID", help="Which cluster, where several are running."
        )
    drill = commands.add_parser(
        "drill", help="Break a cluster on purpose under load, and check that nobody noticed."
    )
    add_drill_arguments(drill)
    return parser


_COMMANDS = {
    "status": show_status,
    "decisions": show_decisions,
    "stop": stop,
    "drain": drain,
    "restart": restart,
    "scale": scale,
}


def operate(arguments: Sequence[str]) -> int:
    """Run one command; its exit code. Raises ControlError if it fails."""
    if arguments and arguments[0] == "drill":
        from loadtests.drills.cli import main as run_drills  # all drills, which others do not need

        return run_drills(list(arguments[1:]))
    given = build_parser().parse_args(arguments)
    _COMMANDS[given.command](given)
    return ExitCode.OK


def main() -> int:
    """The entry point; the exit code is one of `ExitCode`."""
    try:
        return operate(sys.argv[1:])
    except ControlError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
