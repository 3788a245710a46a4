"""A status reads well."""

from cluster.launch.status import ClusterStatus, ProcessStatus
from cluster.launch.status_table import render_status

ENGINE = ProcessStatus(
    role="engine", index=0, name="engine 0", incarnation=3, pid=4711, state="loading", restarts=2,
    uptime_seconds=187.0, command=["python", "-m", "engine", "--rank", "0"],
    environment={"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}, log="/run/logs/engine-0.log",
    last_exit="SIGKILL", progress=0.5, waiting=0, running=12, kv_cache_usage=0.25,
)  # fmt: skip
FRONTEND = ProcessStatus(
    role="frontend", index=0, name="frontend 0", incarnation=1, pid=0, state="parked", restarts=9,
    uptime_seconds=0.0, command=["python", "-m", "frontend"], environment={}, log="/f.log",
)  # fmt: skip
STATUS = ClusterStatus(
    id="c1", url="http://127.0.0.1:8000", pid=1, state="degraded", uptime_seconds=90061.0,
    model="tiny", run_directory="/run/c1", processes=[ENGINE, FRONTEND],
)  # fmt: skip


def test_processes_stand_in_an_aligned_table() -> None:
    assert render_status(STATUS, verbose=False).splitlines() == [
        "cluster c1 is degraded: tiny at http://127.0.0.1:8000, up 1d01h, launch has pid 1",
        "run directory /run/c1",
        "",
        "PROCESS       STATE         PID     UP  RESTARTS  RUNNING  WAITING   KV  LAST EXIT",
        "engine 0.3    loading 50%  4711  3m07s         2       12        0  25%  SIGKILL",
        "frontend 0.1  parked          -      -         9        -        -    -  -",
    ]


def test_verbose_shows_a_line_to_start_each_by_hand() -> None:
    text = render_status(STATUS, verbose=True)
    assert "OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES='' python -m engine --rank 0" in text
    assert "engine 0: log /run/logs/engine-0.log" in text
