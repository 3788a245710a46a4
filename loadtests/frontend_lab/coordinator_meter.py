"""What the coordinator of a cluster does in a while: processor time, and the bytes of its views."""

import asyncio
import time

import msgspec
import psutil

from cluster.errors import DecodeError
from cluster.wire.codec import Decoder, Encoder
from cluster.wire.endpoints import VIEW_TOPIC, Endpoints
from cluster.wire.messages import ClusterView
from cluster.wire.sockets import LoopReader, connect_sub, new_context
from loadtests.drills.cluster import Cluster
from loadtests.frontend_lab.measurement import core_seconds


class CoordinatorWork(msgspec.Struct, frozen=True):
    """Figures a second, over the time that was measured."""

    core_share: float
    """Of one core."""
    view_bytes_per_second: float
    """To each subscriber; every engine and every frontend is one."""
    report_bytes: float
    """An engine's report on the wire, the mean over the newest of all engines."""


class CoordinatorMeter:
    """Subscribes to the views of a running cluster, and counts while it is entered."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._view_bytes = 0
        self._newest: list[bytes] = []

    async def __aenter__(self) -> "CoordinatorMeter":
        [coordinator] = await asyncio.to_thread(self._cluster.processes, "coordinator")
        self._process = psutil.Process(coordinator.pid)
        self._context = new_context()
        address = Endpoints(self._cluster.run_directory).view
        self._socket = connect_sub(self._context, address, VIEW_TOPIC)
        self._reader = LoopReader(asyncio.get_running_loop(), self._socket, self._on_view)
        self._started_at, self._core_seconds = time.monotonic(), core_seconds([self._process])
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave the view."""
        self._reader.close()
        self._socket.close()
        self._context.term()

    def read(self) -> CoordinatorWork:
        """What it has done since it was entered."""
        seconds = time.monotonic() - self._started_at
        return CoordinatorWork(
            (core_seconds([self._process]) - self._core_seconds) / seconds,
            self._view_bytes / seconds,
            mean_report_bytes(self._newest),
        )

    def _on_view(self, frames: list[bytes]) -> None:
        self._view_bytes += sum(map(len, frames))
        self._newest = frames


def mean_report_bytes(view_frames: list[bytes]) -> float:
    """Of the reports in a view, topic first; 0 where there are none."""
    decoder: Decoder[ClusterView] = Decoder(ClusterView)
    try:
        view = decoder.decode(view_frames[1:])
    except DecodeError:
        return 0.0
    reports = [entry.report for entry in view.engines if entry.report is not None]
    encoder = Encoder()
    sizes = [sum(map(len, encoder.encode(report))) for report in reports]
    return sum(sizes) / len(sizes) if sizes else 0.0
