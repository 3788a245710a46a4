"""What the launcher tells of its cluster: the answer to `cluster status`, and `state.json`."""

import logging
import os
import time

import msgspec

from cluster.launch.keeper import ProcessKeeper
from cluster.launch.operation_book import OperationBook
from cluster.launch.rundir import RunDirectory
from cluster.launch.status import ClusterPhase, ClusterStatus
from cluster.telemetry.logs import RateLimited


class StateReport:
    """Gathers it from those who know."""

    def __init__(
        self,
        url: str,
        model_name: str,
        run_directory: RunDirectory,
        keeper: ProcessKeeper,
        book: OperationBook,
    ) -> None:
        self._url = url
        self._model_name = model_name
        self._run_directory = run_directory
        self._keeper = keeper
        self._book = book
        self._started_at = time.monotonic()
        self._complaints = RateLimited(logging.getLogger("launch"))

    def status(self, phase: ClusterPhase) -> ClusterStatus:
        """Everything that is known of the cluster and its processes."""
        now = time.monotonic()
        return ClusterStatus(
            id=self._run_directory.cluster_id,
            url=self._url,
            pid=os.getpid(),
            state=phase,
            uptime_seconds=now - self._started_at,
            model=self._model_name,
            run_directory=str(self._run_directory.path),
            processes=[
                process.status(now, self._keeper.command_line(process))
                for process in self._keeper.processes
            ],
            operation=self._book.words,
            last_operation=self._book.last,
        )

    def save(self, phase: ClusterPhase) -> None:
        """Bring `state.json` up to date, if the disk takes it."""
        state = msgspec.json.format(msgspec.json.encode(self.status(phase)), indent=2)
        try:
            self._run_directory.save_state(state)
        except OSError as error:
            self._complaints.warning("state", "state.json was not written: %s", error.strerror)
