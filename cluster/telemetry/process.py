"""What every process of the cluster does at its start: title, stack dumps, dying with its parent."""

import ctypes
import faulthandler
import os
import signal
import sys
import threading
from pathlib import Path

_PR_SET_NAME = 15
_PR_SET_PDEATHSIG = 1
LIFELINE_VARIABLE = "QUADRIGA_LIFELINE_FD"
"""Environment variable with the read end of a pipe whose other end only the launcher holds."""


def set_process_title(title: str) -> None:
    """Let `ps` and `top` show what this process is, e.g. `quadriga: engine 3`.

    Overwrites argv in place, which is where Linux looks; elsewhere only the short name is set.
    """
    if not sys.platform.startswith("linux"):
        return
    short_name = title.removeprefix("quadriga: ").encode()[:15]
    ctypes.CDLL(None).prctl(_PR_SET_NAME, short_name, 0, 0, 0)
    _overwrite_arguments(title.encode())


def _overwrite_arguments(title: bytes) -> None:
    """Write `title` over the kernel's argv area, found in /proc/self/stat (fields 48 and 49).

    Whatever of the title is longer than the command line was is cut: behind it lies the environment.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if start:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, title, min(len(title), end - start - 1))


def die_with_parent() -> None:
    """End this process at once when the launcher ends, however it ends.

    Two signals, since each misses something: the kernel's parent-death signal (not set yet if the
    parent is gone already), and a pipe that the launcher alone holds open.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    lifeline = os.environ.get(LIFELINE_VARIABLE)
    if lifeline is not None:
        threading.Thread(
            target=_wait_for_end_of_file, args=(int(lifeline),), name="lifeline", daemon=True
        ).start()


def _wait_for_end_of_file(descriptor: int) -> None:
    while True:
        try:
            if not os.read(descriptor, 1):
                break
        except InterruptedError:
            continue
    os._exit(1)


def prepare_process(title: str) -> None:
    """Everything a child of `launch` does first. SIGUSR2 prints all stacks to standard error."""
    die_with_parent()
    set_process_title(title)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the launcher's; it tells its children
