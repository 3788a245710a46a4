"""Run directories are private, exclusive while their launcher lives, and swept afterwards."""

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.errors import ConfigError
from cluster.launch.rundir import RunDirectory, live_runs, runs_root


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as folder:
        yield Path(folder) / "quadriga"


def test_it_is_for_its_owner_alone(root: Path) -> None:
    run = RunDirectory.create(None, 1, root)
    for path in (root, run.path, run.metrics_directory):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    run.remove()


def test_a_root_that_others_can_enter_is_closed_to_them(root: Path) -> None:
    root.mkdir(mode=0o755)
    RunDirectory.create(None, 1, root).remove()
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_a_root_that_is_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    root.symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="not a folder of this user"):
        RunDirectory.create(None, 1, root)


def test_two_clusters_have_two_directories(root: Path) -> None:
    first, second = RunDirectory.create(None, 1, root), RunDirectory.create("named", 1, root)
    assert sorted(live_runs(root)) == sorted([first.path, second.path])
    first.remove()
    assert live_runs(root) == [second.path]
    second.remove()
    assert live_runs(root) == []


def test_a_name_that_is_running_is_refused(root: Path) -> None:
    run = RunDirectory.create("one", 1, root)
    with pytest.raises(ConfigError, match="--cluster-id one is running already"):
        RunDirectory.create("one", 1, root)
    run.remove()
    RunDirectory.create("one", 1, root).remove()


def test_a_root_that_cannot_be_used_is_one_clear_line(root: Path) -> None:
    (root / ".lock").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"quadriga/one cannot be made: Is a directory"):
        RunDirectory.create("one", 1, root)


def test_what_a_dead_launcher_left_is_swept_and_blocks_nothing(root: Path) -> None:
    dead = RunDirectory.create("one", 1, root)
    (dead.metrics_directory / "counter_engine-0.db").write_bytes(b"old")
    os.close(dead._lock)  # what the kernel does for a launcher that was killed
    (root / "without-a-lock").mkdir()
    run = RunDirectory.create("one", 1, root)
    assert not list(run.metrics_directory.iterdir())
    assert not (root / "without-a-lock").exists()
    run.remove()


def test_removal_leaves_nothing(root: Path) -> None:
    run = RunDirectory.create(None, 1, root)
    run.save_state(b"{}")
    assert (run.path / "state.json").read_bytes() == b"{}"
    run.remove()
    assert [path.name for path in root.iterdir()] == [".lock"]


def test_only_the_sockets_of_one_process_are_removed(root: Path) -> None:
    run = RunDirectory.create(None, 1, root)
    names = ["f1.2.requests", "f1.2.outputs", "f1.20.requests"]
    for name in names:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(run.path / name))
    run.remove_sockets("f1.2.")
    assert [name for name in names if (run.path / name).exists()] == ["f1.20.requests"]
    run.remove()


def test_a_path_too_long_for_sockets_is_refused_with_the_way_out(root: Path) -> None:
    with pytest.raises(ConfigError, match="the limit is 99; set XDG_RUNTIME_DIR"):
        RunDirectory.create("x", 1, root / ("y" * 90))


def test_the_root_is_in_the_users_runtime_folder_if_there_is_one(tmp_path: Path) -> None:
    assert runs_root({"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "quadriga"
    assert runs_root({"XDG_RUNTIME_DIR": "/nowhere"}).name == f"quadriga-{os.geteuid()}"
