"""`cluster drain`, `restart` and `scale`: what is printed, and how the command ends."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.launch.exit_codes import ExitCode
from tests.cluster.operate.test_cli import cluster_command
from tests.support.small_launcher import SmallLauncher
from tests.support.waiting import wait_until


@pytest.mark.parametrize(
    "words",
    [
        ("restart",),
        ("restart", "x"),
        ("restart", "1", "--rolling"),
        ("restart", "frontend"),
        ("restart", "launcher", "0"),
        ("drain",),
        ("drain", "first"),
        ("scale", "--dp", "many"),
    ],
)
def test_a_command_that_is_none_is_exit_code_2(words: tuple[str, ...]) -> None:
    result = cluster_command(Path("/tmp/q/quadriga"), *words)
    assert result.returncode == ExitCode.BAD_SETTING
    assert "usage: cluster" in result.stderr


def test_operations_print_a_line_a_change_and_end_when_all_is_done() -> None:
    with SmallLauncher("--engines", "idle,idle") as cluster:
        cluster.wait_until_up()
        wait_until(lambda: cluster.status().state == "ready")
        for words, last in (
            (("drain", "1"), "drain engine 1: done"),
            (("drain", "1", "--deadline", "3"), "drain engine 1: done"),
            (("restart", "1"), "restart engine 1: done"),
            (("restart", "engine", "0"), "restart engine 0: done"),
            (("restart", "frontend", "0"), "restart frontend 0: done"),
            (("restart", "coordinator"), "restart coordinator: done"),
            (
                ("scale", "--dp", "3", "--frontends", "2"),
                "scale to 3 engines and 2 frontends: done",
            ),
            (("scale", "--frontends", "1"), "scale to 1 frontend: done"),
        ):
            result = cluster_command(cluster.root, *words)
            assert (result.returncode, result.stderr) == (ExitCode.OK, "")
            assert result.stdout.splitlines()[-1] == last
        assert [process.name for process in cluster.status().processes] == [
            "coordinator", "engine 0", "engine 1", "engine 2", "frontend 0",
        ]  # fmt: skip


def test_what_is_refused_is_one_line_and_exit_code_1() -> None:
    with SmallLauncher("--engines", "idle") as cluster:
        cluster.wait_until_up()
        wait_until(lambda: cluster.status().state == "ready")
        for words, complaint in (
            (("drain", "0"), "cluster: drain engine 0: no other engine serves"),
            (("drain", "3"), "cluster: drain: engine must be from 0 to 0, not 3"),
            (("scale",), "cluster: scale: give engines, frontends or both"),
            (("scale", "--dp", "0"), "cluster: scale: engines: expected `int` >= 1"),
        ):
            result = cluster_command(cluster.root, *words)
            assert result.returncode == ExitCode.FAILED
            assert result.stderr.startswith(complaint)
            assert result.stderr.count("\n") == 1


def test_ctrl_c_ends_the_command_and_not_the_operation() -> None:
    with SmallLauncher("--engines", "serve,idle") as cluster:
        cluster.wait_until_up()
        wait_until(lambda: cluster.status().state == "ready")
        command = subprocess.Popen(
            [sys.executable, "-P", "-m", "cluster", "drain", "0"],
            env={"XDG_RUNTIME_DIR": str(cluster.root.parent)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert command.stdout is not None
        first = command.stdout.readline()
        assert first == "drain engine 0: engine 0 finishes its requests\n"
        command.send_signal(signal.SIGINT)
        rest = command.stdout.read()
        command.stdout.close()
        assert command.wait(10) == ExitCode.INTERRUPTED
        assert rest == "drain engine 0: goes on without being watched; see `cluster status`\n"
        assert cluster.status().operation.startswith("drain engine 0")
        assert "under way: drain engine 0" in cluster_command(cluster.root, "status").stdout


def test_drills_get_their_arguments_as_they_are() -> None:
    result = cluster_command(Path("/tmp/q/quadriga"), "drill", "--help")
    assert result.returncode == 0
    assert "drill" in result.stdout
