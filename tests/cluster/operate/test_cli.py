"""The `cluster` command finds its cluster, shows it, and stops it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from cluster.launch.exit_codes import ExitCode
from cluster.launch.status import ClusterStatus
from tests.support.small_launcher import SmallLauncher


def cluster_command(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "cluster", *arguments],
        check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(root.parent)},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_without_a_cluster_there_is_nothing_to_operate() -> None:
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as folder:
        for command in ("status", "stop"):
            result = cluster_command(Path(folder) / "quadriga", command)
            assert result.returncode == ExitCode.FAILED
            assert result.stderr == "cluster: no cluster is running\n"


def test_an_unknown_command_is_exit_code_2() -> None:
    assert cluster_command(Path("/tmp/q/quadriga"), "explode").returncode == ExitCode.BAD_SETTING


def test_status_and_stop_work_on_the_only_cluster_there_is() -> None:
    with SmallLauncher() as cluster:
        cluster.wait_until_up()
        shown = cluster_command(cluster.root, "status", "-v")
        assert shown.returncode == ExitCode.OK
        assert "engine 1.1" in shown.stdout
        assert "--role engine --behaviour serve --index 1" in shown.stdout
        as_json = cluster_command(cluster.root, "status", "--json")
        status = msgspec.json.decode(as_json.stdout, type=ClusterStatus)
        assert status.pid == cluster.process.pid
        stopped = cluster_command(cluster.root, "stop")
        assert stopped.returncode == ExitCode.OK
        assert stopped.stdout == f"cluster {status.id} has ended\n"
        assert cluster.exit_code(2) == ExitCode.OK


def test_of_several_clusters_one_must_be_named() -> None:
    with SmallLauncher("--cluster-id", "one") as one:
        one.wait_until_up()
        with SmallLauncher("--cluster-id", "two", root=one.root) as two:
            two.wait_until_up()
            unclear = cluster_command(one.root, "status")
            assert unclear.returncode == ExitCode.FAILED
            assert "choose by --cluster: one, two" in unclear.stderr
            wrong = cluster_command(one.root, "status", "--cluster", "three")
            assert "no cluster three is running; running: one, two" in wrong.stderr
            assert (
                "cluster two is" in cluster_command(one.root, "status", "--cluster", "two").stdout
            )
            cluster_command(one.root, "stop", "--now", "--cluster", "two")
            assert two.exit_code(2) == ExitCode.FAILED
        assert one.process.poll() is None
