"""Several processes, some of them one after another, are one set of numbers."""

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.telemetry.metrics import forget_gauges, render_metrics

WRITER = """
import sys
from cluster.telemetry.metrics import counter, gauge, histogram, join_metrics
join_metrics(*sys.argv[1:3])
counter("request_success").labels("m", "0", "stop").inc(int(sys.argv[3]))
histogram("migration_gap_seconds").observe(0.1)
gauge("num_requests_running").labels("m", sys.argv[2][-1]).set(int(sys.argv[3]))
print("up", flush=True)
sys.stdin.read()
"""


def write(directory: Path, name: str, number: int) -> None:
    """A process of this name counts so many, and is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), name, str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.kill()


def sample(directory: Path, name: str) -> float | None:
    """The value of the sample of this name and labels."""
    for line in render_metrics(directory).decode().splitlines():
        if line.startswith(name + " "):
            return float(line.rpartition(" ")[2])
    return None


STOPS = 'quadriga_request_success_total{engine="0",finished_reason="stop",model_name="m"}'


def running(engine: int) -> str:
    return f'quadriga_num_requests_running{{engine="{engine}",model_name="m"}}'


def test_processes_add_up(tmp_path: Path) -> None:
    write(tmp_path, "frontend-0", 3)
    write(tmp_path, "frontend-1", 4)
    assert sample(tmp_path, STOPS) == 7
    assert sample(tmp_path, "quadriga_migration_gap_seconds_count") == 2
    assert (sample(tmp_path, running(0)), sample(tmp_path, running(1))) == (3, 4)


def test_a_restarted_process_counts_on_in_the_same_files(tmp_path: Path) -> None:
    write(tmp_path, "engine-0", 3)
    files = sorted(tmp_path.iterdir())
    for _ in range(3):
        write(tmp_path, "engine-0", 1)
    assert sample(tmp_path, STOPS) == 6
    assert sample(tmp_path, "quadriga_migration_gap_seconds_count") == 4
    assert sorted(tmp_path.iterdir()) == files


def test_gauges_go_with_their_owner_and_counters_stay(tmp_path: Path) -> None:
    for name in ("engine-1", "engine-11"):
        write(tmp_path, name, 5)
    forget_gauges(tmp_path, "engine-1")
    assert sample(tmp_path, STOPS) == 10
    assert sample(tmp_path, running(1)) == 5
    forget_gauges(tmp_path, "engine-11")
    assert sample(tmp_path, running(1)) is None
    forget_gauges(tmp_path / "nowhere", "engine-1")


def test_a_successor_has_its_own_gauges_in_the_same_file(tmp_path: Path) -> None:
    write(tmp_path, "engine-1", 5)
    forget_gauges(tmp_path, "engine-1")
    write(tmp_path, "engine-1", 2)
    assert sample(tmp_path, running(1)) == 2


def test_the_room_for_them_is_taken_at_once(tmp_path: Path) -> None:
    write(tmp_path, "engine-1", 1)
    for path in tmp_path.iterdir():
        assert path.stat().st_blocks * 512 >= path.stat().st_size >= 64 * 1024


def test_a_name_that_would_be_split_is_refused(tmp_path: Path) -> None:
    from cluster.telemetry.metrics import join_metrics

    with pytest.raises(AssertionError, match="underscores"):
        join_metrics(tmp_path, "engine_1")


def test_a_withdrawn_gauge_is_not_shown_until_it_is_set_again(tmp_path: Path) -> None:
    code = """
import sys
from cluster.telemetry.metrics import gauge, join_metrics, render_metrics, withdraw
join_metrics(sys.argv[1], "launcher")
up = gauge("engine_up")
for rank in ("0", "1"):
    up.labels(rank).set(1)
withdraw(up.labels("1"))
if len(sys.argv) > 2:
    up.labels("1").set(1)
"""
    shown = 'quadriga_engine_up{engine="1"}'
    for arguments, value in (((), None), (("again",), 1.0)):
        subprocess.run([sys.executable, "-c", code, str(tmp_path), *arguments], check=True)
        assert sample(tmp_path, shown) == value
        assert sample(tmp_path, 'quadriga_engine_up{engine="0"}') == 1.0
