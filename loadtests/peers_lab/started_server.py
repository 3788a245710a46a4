"""A server started by a command, so that only one has the machine at a time."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time

import psutil

from loadtests.peers_lab.peer import Peer, PeerError

STOP_SECONDS = 30.0
"""From SIGTERM to SIGKILL."""
GONE_SECONDS = 10.0
LOG_EXCERPT_BYTES = 2000


class StartedServer:
    """The server's process and all below it, from its start to its end."""

    def __init__(self, peer: Peer) -> None:
        """Start it. Raises PeerError if there is no such command."""
        self._peer = peer
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self.started_at = time.monotonic()
        try:
            self._process = subprocess.Popen(
                peer.command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._log.close()
            raise PeerError(f"{peer.name}: {peer.command[0]}: {error.strerror}") from error

    def check_running(self) -> None:
        """Raises PeerError, with the server's last words, if it has ended."""
        code = self._process.poll()
        if code is not None:
            raise PeerError(f"{self._peer.name} has ended with code {code}:\n{self.last_words()}")

    def last_words(self) -> str:
        """The end of what it has printed."""
        # Not by seek: the server writes at the position of the same open file.
        log = self._log.fileno()
        begin = max(0, os.fstat(log).st_size - LOG_EXCERPT_BYTES)
        return os.pread(log, LOG_EXCERPT_BYTES, begin).decode("utf-8", "replace").strip()

    def memory_bytes(self) -> int:
        """What all its processes hold now; pages that they share count once, where that is told."""
        return sum(map(_memory_bytes, self._processes()))

    def end(self) -> None:
        """SIGTERM, then SIGKILL for whatever is left; returns when all of it is gone."""
        processes = self._processes()
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for process in processes:  # those that have left the group
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        psutil.wait_procs(processes, timeout=GONE_SECONDS)
        self._log.close()

    def _processes(self) -> list[psutil.Process]:
        try:
            leader = psutil.Process(self._process.pid)
            return [leader, *leader.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def _memory_bytes(process: psutil.Process) -> int:
    """The proportional share (PSS) of a process where the system tells it, else what is resident."""
    try:
        with contextlib.suppress(psutil.AccessDenied):
            if share := getattr(process.memory_full_info(), "pss", 0):
                return int(share)
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0  # it has ended meanwhile
