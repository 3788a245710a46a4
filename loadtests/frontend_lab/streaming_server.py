"""What streams, and the processes whose time counts as its own."""

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil

from loadtests.drills.cluster import Cluster
from loadtests.drills.drill import DrillError


class StreamingServer(NamedTuple):
    """A server, and how to find the processes that speak HTTP for it."""

    url: str
    find_processes: Callable[[], list[psutil.Process]]


def frontends_of(cluster: Cluster) -> StreamingServer:
    """The frontends of a cluster of ours, all together."""
    return StreamingServer(
        cluster.url,
        lambda: [psutil.Process(process.pid) for process in cluster.processes("frontend")],
    )


def server_at(url: str) -> StreamingServer:
    """Any server of this machine: whoever listens at its port, without what it has started itself."""
    return StreamingServer(url, lambda: _listeners(url))


def _listeners(url: str) -> list[psutil.Process]:
    """Raises DrillError if there is none, or it may not be seen."""
    port = urlsplit(url).port or 80
    pids = {
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
    }
    if not pids or None in pids:
        raise DrillError(f"no process of this user and this machine listens at {url}")
    return [psutil.Process(pid) for pid in sorted(filter(None, pids))]
