"""What a person sees while a cluster starts, and the line that says where it is."""

import logging
import os
from collections.abc import Sequence

from cluster.launch.error_output import ErrorOutput
from cluster.launch.managed_process import ManagedProcess

STANDARD_OUTPUT = 1
_BAR_WIDTH = 20


class StartupDisplay:
    """On a terminal a live line for each process that is not ready; elsewhere a log line a change."""

    def __init__(self, output: ErrorOutput) -> None:
        self._output = output
        self._logger = logging.getLogger("launch")
        self._is_over = False
        self._known: dict[tuple[str, int], str] = {}

    def update(self, processes: Sequence[ManagedProcess]) -> None:
        """Show how far everybody is; once all were ready, nothing is shown any more."""
        for process in processes:
            self._log_change(process)
        self._is_over = self._is_over or all(process.was_ready for process in processes)
        waiting = [] if self._is_over else [p for p in processes if not p.is_ready]
        self._output.show([_line(process) for process in waiting])

    def _log_change(self, process: ManagedProcess) -> None:
        key = (process.name, process.incarnation)
        if self._known.get(key) == process.phase or not process.is_alive or process.is_stopping:
            return
        self._known = {known: phase for known, phase in self._known.items() if known[0] != key[0]}
        self._known[key] = process.phase
        # On a terminal the live lines tell it while the cluster starts.
        level = logging.DEBUG if self._output.is_terminal and not self._is_over else logging.INFO
        self._logger.log(level, "%s.%d is %s", process.name, process.incarnation, process.phase)

    def announce(self, url: str, cluster_id: str) -> None:
        """Say, on standard output, where the cluster is."""
        line = f"{url} is ready (cluster {cluster_id}; `cluster stop` or Ctrl-C ends it)\n"
        if self._output.is_terminal:
            self._output.write(line)
        if not (self._output.is_terminal and os.isatty(STANDARD_OUTPUT)):
            standard_output = ErrorOutput(STANDARD_OUTPUT)
            standard_output.write(line)
            standard_output.close(timeout_seconds=0.1)

    def end(self) -> None:
        """Remove the live lines."""
        self._is_over = True
        self._output.show([])


def _line(process: ManagedProcess) -> str:
    line = f"  {process.name:<14} {process.phase}"
    if 0 < process.progress < 1:
        done = round(process.progress * _BAR_WIDTH)
        line += f"  {'━' * done}{'─' * (_BAR_WIDTH - done)} {process.progress:4.0%}"
    return line
