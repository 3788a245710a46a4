"""`cluster stop`: the end of a cluster, waited for."""

import argparse
import os
import select
import sys

from cluster.errors import ControlError
from cluster.launch.control_client import ask, find_run
from cluster.operate.looking import read_status


def stop(arguments: argparse.Namespace) -> None:
    """End a cluster, and return when it is gone. Raises ControlError if it cannot be told."""
    run_directory = find_run(arguments.cluster)
    status = read_status(run_directory)
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
