"""A cluster started by the real `launch` command, for tests that speak HTTP and kill processes."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec

from cluster.errors import ControlError
from cluster.launch.control_client import ask
from cluster.launch.status import ClusterStatus, ProcessStatus
from tests.support.processes import children_of, is_running
from tests.support.waiting import wait_until

START_SECONDS = 120.0


class LaunchedCluster:
    """`launch` in a process of its own, with a run directory of its own."""

    def __init__(self, *flags: str, environment: dict[str, str] | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="quadriga-test-"))
        self.log_path = self.directory / "launch.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "cluster.launch",
                    "--port=0",
                    "--cluster-id=t",
                    *flags,
                ],
                env=os.environ | {"XDG_RUNTIME_DIR": str(self.directory)} | (environment or {}),
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
            )
        self.run_directory = self.directory / "quadriga" / "t"

    def wait_until_ready(self) -> "LaunchedCluster":
        """Return once every process is ready."""
        wait_until(self._is_ready, START_SECONDS)
        return self

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, f"launch has ended:\n{self.log()}"
        try:
            status = self.status()
        except ControlError:
            return False
        return status.state == "ready" and all(p.state == "ready" for p in status.processes)

    # ── looking ──

    def log(self) -> str:
        """What `launch` and its children have printed."""
        return self.log_path.read_text(errors="replace")

    def status(self) -> ClusterStatus:
        """What `cluster status` shows."""
        return msgspec.json.decode(ask(self.run_directory, "status"), type=ClusterStatus)

    def find(self, name: str) -> ProcessStatus:
        """The process of this name, such as `engine 0`, as it is now."""
        return next(process for process in self.status().processes if process.name == name)

    @property
    def url(self) -> str:
        """Where it serves."""
        return self.status().url

    def get(self, path: str) -> httpx.Response:
        """GET over a connection of its own, answered by any frontend."""
        return httpx.get(self.url + path, timeout=30, trust_env=False)

    def post(self, path: str, **body: Any) -> httpx.Response:
        """POST a JSON body over a connection of its own."""
        return httpx.post(self.url + path, json=body, timeout=60, trust_env=False)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that carry these labels."""
        return sum_samples(self.get("/metrics").text, name, **labels)

    def engines(self) -> list[dict[str, Any]]:
        """The engines as `/cluster` shows them."""
        engines: list[dict[str, Any]] = self.get("/cluster").json()["engines"]
        return engines

    def is_idle(self) -> bool:
        """Whether no engine holds a request or a block for one."""
        loads = [engine["load"] for engine in self.engines()]
        return all(
            load and not load["running"] + load["waiting"] + load["used_blocks"] for load in loads
        )

    # ── faults ──

    def signal(self, name: str, number: signal.Signals) -> int:
        """Send a signal to a process by its name; returns its pid."""
        pid = self.find(name).pid
        os.kill(pid, number)
        return pid

    def kill(self, name: str) -> int:
        """`kill -9`."""
        return self.signal(name, signal.SIGKILL)

    def wait_until_restarted(self, name: str, incarnation: int) -> float:
        """Seconds until this incarnation of the process is ready."""
        started_at = time.monotonic()

        def is_back() -> bool:
            process = self.find(name)
            return process.incarnation >= incarnation and process.state == "ready"

        wait_until(is_back, START_SECONDS)
        return time.monotonic() - started_at

    # ── the end ──

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.terminate()
        return self.process.wait(60)

    def close(self) -> None:
        """Leave nothing behind, whatever has happened. Raises AssertionError if a child survives."""
        pids = children_of(self.process.pid)
        self.process.kill()
        self.process.wait()
        wait_until(lambda: not any(is_running(pid) for pid in pids), 5)
        shutil.rmtree(self.directory)


def sum_samples(metrics: str, name: str, **labels: str) -> float:
    """The sum of the samples of a metric in the Prometheus text format."""
    total = 0.0
    for line in metrics.splitlines():
        sample, _, value = line.rpartition(" ")
        sample_name, _, sample_labels = sample.partition("{")
        if sample_name == name and all(f'{k}="{v}"' in sample_labels for k, v in labels.items()):
            total += float(value)
    return total


def embedded_model() -> Sequence[str]:
    """Flags for a small cluster of the embedded model, which `launch` converts at its first use."""
    return ["--kv-cache-memory=256MiB", "--max-model-len=2048"]
