"""A profile of a frontend under load."""

import io
import os
import pstats
from pathlib import Path

from loadtests.drills.cluster import Cluster
from loadtests.drills.drill import DrillError
from loadtests.frontend_lab import profiled
from loadtests.frontend_lab.measurement import LoadOptions, cluster_flags, measure_run
from loadtests.frontend_lab.profiled.sitecustomize import FILE_VARIABLE
from loadtests.frontend_lab.streaming_server import frontends_of

LINES_SHOWN = 30
SHOWN_FILES = r"/(frontend|cluster|hypercorn|starlette|h11|asyncio)/"
"""Not what Python does to import them."""


def profile_frontend(file: Path, options: LoadOptions) -> str:
    """Run one frontend under cProfile, write its profile to `file`, and tell where its time went.

    What the profiler itself costs is in the figures: they are for finding, not for quoting.
    """
    environment = {
        "PYTHONPATH": os.pathsep.join(
            [profiled.__path__[0], *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
        FILE_VARIABLE: str(file.resolve()),
    }
    cluster = Cluster(*cluster_flags(1, options), environment=environment)
    try:
        measure_run(frontends_of(cluster.wait_until_ready()), "completions", options)
        cluster.stop()
    finally:
        cluster.close()
    if not file.exists():
        raise DrillError("the frontend has written no profile")
    return hottest_lines(file)


def hottest_lines(file: Path) -> str:
    """The functions of a frontend that took the most time themselves, and of what it is made of."""
    text = io.StringIO()
    profile = pstats.Stats(str(file), stream=text).sort_stats("tottime")
    profile.print_stats(SHOWN_FILES, LINES_SHOWN)
    return text.getvalue()
