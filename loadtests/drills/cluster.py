"""A cluster started by the real `launch` command, whose processes can be found and killed."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from cluster.errors import ControlError
from cluster.launch.control_client import ask
from cluster.launch.status import ClusterStatus, ProcessStatus
from loadtests.drills.blocking_http import HttpAnswer, ask_http
from loadtests.drills.drill import DrillError
from loadtests.drills.processes import is_running, processes_below
from loadtests.drills.waiting import wait_until

START_SECONDS = 180.0
CLUSTER_ID = "t"
LOG_EXCERPT_CHARACTERS = 2000


class Cluster:
    """`launch` in a process of its own, with a run directory of its own.

    All methods block: on an event loop they belong into `asyncio.to_thread`.
    """

    api_key: str | None = None
    """The first that it was started with; its own questions carry it."""

    def __init__(
        self,
        *flags: str,
        environment: dict[str, str] | None = None,
        directory: Path | None = None,
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        """`directory` must be empty, and is removed in the end."""
        keys = [flag.partition("=")[2] for flag in flags if flag.startswith("--api-key=")]
        self.api_key = keys[0] if keys else None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="quadriga-drill-"))
        self.log_path = self.directory / "launch.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "cluster.launch",
                    "--port=0",
                    f"--cluster-id={cluster_id}",
                    *flags,
                ],
                env=os.environ | {"XDG_RUNTIME_DIR": str(self.directory)} | (environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=True,
            )
        self.run_directory = self.directory / "quadriga" / cluster_id
        self._url: str | None = None

    def wait_until_ready(self, seconds: float = START_SECONDS) -> "Cluster":
        """Return once every process is ready. Raises DrillError."""
        wait_until(self._is_ready, seconds, "every process of the cluster is ready")
        return self

    def _is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise DrillError(f"launch has ended:\n{self.log()[-LOG_EXCERPT_CHARACTERS:]}")
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
        """What `cluster status` shows. Raises ControlError."""
        return msgspec.json.decode(ask(self.run_directory, "status"), type=ClusterStatus)

    def find(self, name: str) -> ProcessStatus:
        """The process of this name, such as `engine 0`, as it is now."""
        return next(process for process in self.status().processes if process.name == name)

    def processes(self, role: str) -> list[ProcessStatus]:
        """All processes of a role: engine, frontend, coordinator."""
        return [process for process in self.status().processes if process.role == role]

    @property
    def url(self) -> str:
        """Where it serves; it stays the same for the cluster's life."""
        if not self._url:
            self._url = self.status().url
        return self._url

    def get(self, path: str, **headers: str) -> HttpAnswer:
        """GET over a connection of its own, answered by any frontend."""
        return ask_http(self.url, "GET", path, headers={**self._headers(), **headers})

    def post(self, path: str, **body: Any) -> HttpAnswer:
        """POST a JSON body over a connection of its own."""
        return ask_http(self.url, "POST", path, body, self._headers(), seconds=60.0)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

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

    def wait_until_restarted(
        self, name: str, incarnation: int, seconds: float = START_SECONDS
    ) -> float:
        """Seconds until this incarnation of the process, or a later one, is ready."""
        started_at = time.monotonic()

        def is_back() -> bool:
            process = self.find(name)
            return process.incarnation >= incarnation and process.state == "ready"

        wait_until(is_back, seconds, f"{name} is back")
        return time.monotonic() - started_at

    def operate(
        self, verb: str, *args: str, seconds: float = 120.0
    ) -> "subprocess.CompletedProcess[str]":
        """Run `cluster VERB …` for this cluster, and wait for it."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "cluster", verb, *args, "--cluster", self.run_directory.name],
            env=os.environ | {"XDG_RUNTIME_DIR": str(self.directory)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=self.directory,
            check=False,
        )  # fmt: skip

    # ── the end ──

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.terminate()
        return self.process.wait(60)

    def all_pids(self) -> list[int]:
        """Every running process of this cluster but `launch`."""
        return processes_below(self.directory, but=(os.getpid(), self.process.pid))

    def close(self) -> None:
        """Leave nothing behind, whatever has happened. Raises DrillError if a child survives."""
        self.process.kill()
        self.process.wait()
        try:
            wait_until(lambda: not self.all_pids(), 5, "no process is left after the launcher")
        except DrillError:
            survivors = self.all_pids()
            for pid in survivors:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            raise DrillError(f"processes outlived their launcher: {survivors}") from None
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)


class AttachedCluster(Cluster):
    """Somebody's running cluster, known by its address alone: nothing of it can be killed."""

    def __init__(self, url: str) -> None:
        self._url = url

    def status(self) -> ClusterStatus:
        """Raises DrillError: the launcher of a cluster behind a URL cannot be asked."""
        raise DrillError("the processes of a cluster behind a URL are out of reach")

    def log(self) -> str:
        """Nothing: its log is elsewhere."""
        return ""

    def all_pids(self) -> list[int]:
        """None that may be touched."""
        return []

    def close(self) -> None:
        """Leave it as it is."""


def sum_samples(metrics: str, name: str, **labels: str) -> float:
    """The sum of the samples of a metric in the Prometheus text format."""
    total = 0.0
    for line in metrics.splitlines():
        sample, _, value = line.rpartition(" ")
        sample_name, _, sample_labels = sample.partition("{")
        if sample_name == name and all(f'{k}="{v}"' in sample_labels for k, v in labels.items()):
            total += float(value)
    return total


def running(pids: list[int]) -> list[int]:
    """Those of the processes that have not ended."""
    return [pid for pid in pids if is_running(pid)]
