"""A histogram of values that come by the thousand."""

from bisect import bisect_left

from prometheus_client import Histogram

from cluster.telemetry.metrics import PREFIX
from cluster.telemetry.names import METRICS


class BufferedHistogram(Histogram):
    """Counts values in memory, and writes them to the process's file when it is told to.

    A value that is written at once costs a lock and two writes into mapped memory: in a frontend more
    than the text of the token that it measures.
    """

    _noted: list[int]
    """Values by bucket, since the last time."""
    _noted_sum: float

    def note(self, value: float) -> None:
        """Count a value; it is seen after `flush`."""
        self._noted[bisect_left(self._upper_bounds, value)] += 1
        self._noted_sum += value

    def flush(self) -> None:
        """Write down what was noted since the last time."""
        for bucket, count in enumerate(self._noted):
            if count:
                self._buckets[bucket].inc(count)
                self._noted[bucket] = 0
        self._sum.inc(self._noted_sum)
        self._noted_sum = 0.0

    def _metric_init(self) -> None:
        super()._metric_init()
        self._noted = [0] * len(self._upper_bounds)
        self._noted_sum = 0.0


def buffered_histogram(name: str) -> BufferedHistogram:
    """The histogram of this name in the table, in this process's files."""
    [spec] = [spec for spec in METRICS if spec.name == name and spec.kind == "histogram"]
    return BufferedHistogram(
        spec.name, spec.help, spec.labels, namespace=PREFIX, registry=None, buckets=spec.buckets
    )
