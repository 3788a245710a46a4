"""Looks at a running cluster: snapshots of what it holds, and samples while it works."""

import asyncio
import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

from cluster.errors import ControlError
from cluster.launch.status import ClusterStatus
from cluster.wire.endpoints import Endpoints
from loadtests.drills.cluster import Cluster, sum_samples
from loadtests.drills.history import History, Sample
from loadtests.drills.processes import resources_of
from loadtests.drills.quiet import COUNTERS, ClusterState, ProcessState

SAMPLE_SECONDS = 0.5
SHARED_SOCKETS = ("reports", "view", "control")


def observe(cluster: Cluster) -> ClusterState:
    """The whole cluster, now. Raises OSError, ControlError or DrillError if it does not answer."""
    status = cluster.status()
    metrics = cluster.get("/metrics").text
    loads = [engine.get("load") or {} for engine in cluster.engines()]
    return ClusterState(
        processes=tuple(_process_states(status)),
        running=sum(process.running or 0 for process in status.processes),
        waiting=sum(process.waiting or 0 for process in status.processes),
        used_blocks=sum(int(load.get("used_blocks", 0)) for load in loads),
        queued=round(sum_samples(metrics, "quadriga_admission_queue_depth")),
        counters={
            short: sum_samples(metrics, name, **labels)
            for short, (name, labels) in COUNTERS.items()
        },
    )


def _process_states(status: ClusterStatus) -> Iterable[ProcessState]:
    for process in status.processes:
        resources = resources_of(process.pid)
        if resources is not None:
            yield ProcessState(process.name, process.pid, process.restarts, resources)


def dead_files(run_directory: Path, status: ClusterStatus) -> tuple[list[str], list[str]]:
    """Sockets and flight records in a run directory whose owners have ended."""
    alive = {(process.role, process.index, process.incarnation) for process in status.processes}
    endpoints = Endpoints(run_directory)
    sockets = {
        Path(address.removeprefix("ipc://")).name
        for role, index, incarnation in alive
        if role == "frontend"
        for address in endpoints.frontend(index, incarnation)
    }
    records = {
        f"flight-{index}.{incarnation}" for role, index, incarnation in alive if role == "engine"
    }
    names = [path for path in run_directory.iterdir() if not path.is_dir()]
    dead_sockets = [
        path.name
        for path in names
        if path.is_socket() and path.name not in sockets | set(SHARED_SOCKETS)
    ]
    dead_records = [
        path.name for path in names if path.name.startswith("flight-") and path.name not in records
    ]
    return dead_sockets, dead_records


class Sampler:
    """Asks the launcher now and then, and writes into the history what engines hold and who is back."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        self._cluster = cluster
        self._history = history
        self._ready: dict[str, int] = {}
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ask no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            asked_at = time.monotonic()
            with contextlib.suppress(ControlError):  # starting, frozen or gone: nothing to see
                self._take(await asyncio.to_thread(self._cluster.status))
            await asyncio.sleep(max(0.0, asked_at + SAMPLE_SECONDS - time.monotonic()))

    def _take(self, status: ClusterStatus) -> None:
        held = {
            process.name: (process.running or 0) + (process.waiting or 0)
            for process in status.processes
            if process.role == "engine"
        }
        self._history.samples.append(Sample(time.monotonic(), held))
        for process in status.processes:
            if process.state != "ready":
                continue
            before = self._ready.get(process.name, process.incarnation)
            if process.incarnation > before:
                self._history.mark(f"{process.name} back", "recovery")
            self._ready[process.name] = process.incarnation
