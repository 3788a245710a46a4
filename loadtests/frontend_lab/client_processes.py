"""Processes that stream from a server, so that their own cost is no part of the server's."""

import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import IO

import msgspec

from loadtests.drills.drill import DrillError
from loadtests.frontend_lab.streaming_client import Count, Job


def shared_out(job: Job, num_processes: int) -> list[Job]:
    """The same streams, as evenly over processes as may be; none without a stream."""
    shares = [
        job.streams // num_processes + (place < job.streams % num_processes)
        for place in range(num_processes)
    ]
    return [msgspec.structs.replace(job, streams=streams) for streams in shares if streams]


class ClientProcesses:
    """Clients that are started, and wait for the word to begin."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._processes = [_start() for _ in jobs]
        for process, job in zip(self._processes, jobs, strict=True):
            _tell(process, msgspec.json.encode(job).decode())
        for process in self._processes:
            _line_of(process)

    def __enter__(self) -> "ClientProcesses":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End those that have not ended."""
        for process in self._processes:
            process.kill()
            process.communicate()

    def run(self) -> Count:
        """Let them begin, and wait for all. Raises DrillError if an answer was not whole."""
        for process in self._processes:
            _tell(process, "begin")
        total = Count()
        for process in self._processes:
            total.add(msgspec.json.decode(_line_of(process), type=Count))
        if total.failed:
            raise DrillError(f"{total.failed} answers were not whole, e.g. {total.failure}")
        return total


def _start() -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "loadtests.frontend_lab.streaming_client"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def _tell(process: "subprocess.Popen[str]", line: str) -> None:
    pipe = _open(process.stdin)
    pipe.write(line + "\n")
    pipe.flush()


def _line_of(process: "subprocess.Popen[str]") -> str:
    line = _open(process.stdout).readline()
    if not line:
        raise DrillError(f"a client has ended with {process.wait()}")
    return line


def _open(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None, "it was asked for"
    return pipe
