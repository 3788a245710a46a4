"""Python imports this at its start where its folder is on PYTHONPATH, and so before a frontend's code."""

import atexit
import cProfile
import os
import sys

FILE_VARIABLE = "FRONTEND_PROFILE_FILE"


def profile_to(file: str) -> None:
    """Profile this thread from now on, and write what was found at the end of the process."""
    profile = cProfile.Profile()

    def write() -> None:
        profile.disable()
        profile.dump_stats(file)

    atexit.register(write)
    profile.enable()


if FILE_VARIABLE in os.environ and sys.orig_argv[2:4] == ["-m", "frontend"]:
    profile_to(os.environ[FILE_VARIABLE])
