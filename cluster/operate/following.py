"""Asking a cluster for an operation, and watching it until its end."""

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cluster.errors import ControlError
from cluster.launch.control_client import ask
from cluster.launch.operation_book import OperationOutcome, Ticket
from cluster.operate.looking import read_status

LOOK_SECONDS = 0.1


def carry_out(run_directory: Path, verb: str, arguments: Mapping[str, object]) -> None:
    """Have an operation done, printing what happens, and return when it is.

    Raises ControlError if it is refused or fails.
    """
    body = msgspec.json.encode(arguments).decode()
    ticket = msgspec.json.decode(ask(run_directory, verb, body), type=Ticket)
    if not ticket.is_new:
        print(f"{ticket.operation}: under way already", flush=True)
    try:
        outcome = _follow(run_directory, ticket)
    except KeyboardInterrupt:
        print(f"{ticket.operation}: goes on without being watched; see `cluster status`")
        raise
    if outcome.outcome != "done":
        raise ControlError(f"{outcome.operation}: {outcome.outcome}: {outcome.detail}")
    print(f"{outcome.operation}: done" + (f", but {outcome.detail}" if outcome.detail else ""))


def _follow(run_directory: Path, ticket: Ticket) -> OperationOutcome:
    shown = ""
    while True:
        status = read_status(run_directory)
        last = status.last_operation
        if last is not None and last.number == ticket.number:
            return last
        if last is not None and last.number > ticket.number:
            raise ControlError(f"{ticket.operation}: has ended, and another operation since; how is "
                               "in the log of launch")  # fmt: skip
        if status.operation not in ("", shown):
            shown = status.operation
            print(shown, flush=True)
        time.sleep(LOOK_SECONDS)
