"""Prometheus metrics that any frontend can answer for the whole cluster.

Each process writes its values into small memory-mapped files of one directory (prometheus-client's
multiprocess mode). The files are named after the process's place in the cluster, `engine-3`, not its
pid: a restarted process goes on counting where its predecessor was killed, so that a thousand
restarts neither lose a count nor add a file. Gauges are forgotten when their owner dies.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, values
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from cluster.telemetry.names import METRICS, MetricSpec

PREFIX = "quadriga"
DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST

FILE_BYTES = {"counter": 64 * 1024, "gauge_livemostrecent": 64 * 1024, "histogram": 256 * 1024}
"""Taken on the disk at once: a page that a full disk cannot give would end the process (SIGBUS)."""

_SPECS = {spec.name: spec for spec in METRICS}


def join_metrics(directory: Path | str, process_name: str) -> None:
    """Let this process write its metrics into `directory` under its name, e.g. `engine-3`.

    Must run before the first metric is made; threads and forks of the process share the files.
    Raises OSError if there is no room for them.
    """
    assert "_" not in process_name, "prometheus-client splits file names at underscores"
    for kind, size in FILE_BYTES.items():
        with (Path(directory) / f"{kind}_{process_name}.db").open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    os.environ[DIRECTORY_VARIABLE] = str(directory)
    values.ValueClass = values.MultiProcessValue(  # type: ignore[no-untyped-call]
        process_identifier=lambda: process_name
    )


def forget_gauges(directory: Path | str, process_name: str) -> None:
    """Empty the gauges of a process that has ended; its counters stay.

    The file stays too, since a full disk might not give its successor a new one: it begins with the
    number of its bytes that are used.
    """
    for path in Path(directory).glob(f"gauge_live*_{process_name}.db"):
        with path.open("r+b") as file:
            file.write(bytes(4))


def render_metrics(directory: Path | str) -> bytes:
    """The metrics of all processes in the Prometheus text format. Reads files: not for event loops."""
    registry = CollectorRegistry()
    registry.register(_ShownMetrics(directory))
    return prometheus_client.generate_latest(registry)


class _ShownMetrics(Collector):
    """All samples of all processes, but for those that were withdrawn."""

    def __init__(self, directory: Path | str) -> None:
        self._files = MultiProcessCollector(  # type: ignore[no-untyped-call]
            None, path=str(directory)
        )

    def collect(self) -> Iterator[Metric]:
        """Read the files."""
        for metric in self._files.collect():  # type: ignore[no-untyped-call]
            if metric.type == "gauge":
                metric.samples = [s for s in metric.samples if not math.isnan(s.value)]
            yield metric


def _spec(name: str, kind: str) -> MetricSpec:
    spec = _SPECS[name]
    assert spec.kind == kind, f"{name} is a {spec.kind}, not a {kind}"
    return spec


def counter(name: str) -> Counter:
    """The counter of this name in the table, in this process's files."""
    spec = _spec(name, "counter")
    return Counter(spec.name, spec.help, spec.labels, namespace=PREFIX, registry=None)


def gauge(name: str) -> Gauge:
    """The gauge of this name in the table; it lives as long as its process."""
    spec = _spec(name, "gauge")
    return Gauge(
        spec.name, spec.help, spec.labels, namespace=PREFIX, registry=None,
        multiprocess_mode="livemostrecent",
    )  # fmt: skip


def withdraw(sample: Gauge) -> None:
    """Show this gauge of these labels no more, until it is set again; its file keeps the place."""
    sample.set(math.nan)


def histogram(name: str) -> Histogram:
    """The histogram of this name in the table, with its buckets."""
    spec = _spec(name, "histogram")
    return Histogram(
        spec.name, spec.help, spec.labels, namespace=PREFIX, registry=None, buckets=spec.buckets
    )
