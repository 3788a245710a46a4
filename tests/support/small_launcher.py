"""A `tests.support.small_launch` run from a test: started, watched, and gone afterwards."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import msgspec

from cluster.launch.control_client import ask, find_run
from cluster.launch.status import ClusterStatus, ProcessStatus
from tests.support.processes import children_of, is_running
from tests.support.waiting import wait_until

PATIENCE_SECONDS = 20.0


class SmallLauncher:
    """A launcher with the real coordinator and small rooms, in a run root of its own.

    Leaving the `with` block ends whatever is left, and fails if the launcher's death left orphans.
    """

    def __init__(self, *flags: str, root: Path | None = None) -> None:
        # Socket paths are short, and pytest's own folders are not.
        self._temporary = tempfile.TemporaryDirectory(prefix="q", dir="/tmp")
        self.root = root or Path(self._temporary.name) / "quadriga"
        self._stderr = (Path(self._temporary.name) / "stderr").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.support.small_launch", *flags],
            env={**os.environ, "XDG_RUNTIME_DIR": str(self.root.parent)},
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        self._children: list[int] = []

    def __enter__(self) -> "SmallLauncher":
        return self

    def wait_until_up(self) -> str:
        """The line that says where the cluster is."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.stderr()
        self._children = children_of(self.process.pid)
        return line

    @property
    def run_directory(self) -> Path:
        return find_run(None, self.root)

    def status(self) -> ClusterStatus:
        return msgspec.json.decode(ask(self.run_directory, "status"), type=ClusterStatus)

    def child(self, name: str) -> ProcessStatus:
        return next(process for process in self.status().processes if process.name == name)

    def wait_for(self, name: str, is_right: Callable[[ProcessStatus], bool]) -> ProcessStatus:
        """The status of this child, as soon as it is so."""

        def look() -> ProcessStatus | None:
            child = self.child(name)
            return child if is_right(child) else None

        found = wait_until(look, PATIENCE_SECONDS)
        assert found is not None
        return found

    def wait_for_state(self, name: str, state: str) -> ProcessStatus:
        return self.wait_for(name, lambda child: child.state == state)

    def wait_for_incarnation(self, name: str, incarnation: int) -> ProcessStatus:
        return self.wait_for(name, lambda child: child.incarnation == incarnation)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self, timeout_seconds: float = PATIENCE_SECONDS) -> int:
        return self.process.wait(timeout_seconds)

    def stderr(self) -> str:
        return Path(self._stderr.name).read_text()

    def wait_for_stderr(self, text: str) -> None:
        wait_until(lambda: text in self.stderr(), PATIENCE_SECONDS)

    def children(self) -> list[int]:
        """Those of the launcher's first children that are alive."""
        return [child for child in self._children if is_running(child)]

    def has_left_nothing(self) -> bool:
        return not self.children() and [path.name for path in self.root.iterdir()] == [".lock"]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._stderr.close()
        wait_until(lambda: not self.children(), 5)
        self._temporary.cleanup()
