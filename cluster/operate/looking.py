"""`cluster status`: what a cluster consists of, and how each part is."""

import argparse
from pathlib import Path

import msgspec

from cluster.launch.control_client import ask, find_run
from cluster.launch.status import ClusterStatus
from cluster.launch.status_table import render_status


def read_status(run_directory: Path) -> ClusterStatus:
    """The status of a cluster. Raises ControlError if it cannot be had."""
    return msgspec.json.decode(ask(run_directory, "status"), type=ClusterStatus)


def show_status(arguments: argparse.Namespace) -> None:
    """Print the status of a cluster. Raises ControlError if it cannot be had."""
    body = ask(find_run(arguments.cluster), "status")
    if arguments.json:
        print(msgspec.json.format(body, indent=2))
    else:
        status = msgspec.json.decode(body, type=ClusterStatus)
        print(render_status(status, arguments.verbose))
