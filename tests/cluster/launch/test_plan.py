"""The plan: which processes, with which devices and cores."""

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.launch.config_sources import resolve_config
from cluster.launch.plan import ProcessSpec, make_plan
from cluster.wire.messages import Role


def plan(cores: list[int], **values: Any) -> list[ProcessSpec]:
    config = resolve_config({"device": "cpu", **values})
    return make_plan(config, Path("/run/c/cluster.json"), Path("/run/c/metrics"), cores)


def cores_of(spec: ProcessSpec) -> list[int]:
    if "--cores" not in spec.command:
        return []
    return [int(core) for core in spec.command[spec.command.index("--cores") + 1].split(",")]


def engines(specs: list[ProcessSpec]) -> list[ProcessSpec]:
    return [spec for spec in specs if spec.role is Role.ENGINE]


def test_a_cluster_is_a_coordinator_then_engines_then_frontends() -> None:
    names = [spec.name for spec in plan([0, 1], data_parallel_size=2, frontends=1)]
    assert names == ["coordinator", "engine 0", "engine 1", "frontend 0"]


def test_children_are_started_by_module_name_away_from_the_working_directory() -> None:
    coordinator, engine, frontend = plan([0])
    head = [sys.executable, "-P", "-m"]
    config = ["--config", "/run/c/cluster.json"]
    assert coordinator.command_line(2, 5) == [*head, "coordinator", *config, "--incarnation", "2"]
    assert engine.command_line(1, 5) == [
        *head, "engine", *config, "--rank", "0", "--cores", "0", "--incarnation", "1",
    ]  # fmt: skip
    assert frontend.command_line(1, 5) == [
        *head, "frontend", *config, "--index", "0", "--incarnation", "1", "--listen-fd", "5",
    ]  # fmt: skip


def test_every_child_is_kept_off_the_network_and_told_where_metrics_go() -> None:
    for spec in plan([0, 1]):
        assert spec.environment["HF_HUB_OFFLINE"] == "1"
        assert spec.environment["PROMETHEUS_MULTIPROC_DIR"] == "/run/c/metrics"


def test_two_engines_on_two_cores_have_one_each() -> None:
    first, second = engines(plan([4, 7], data_parallel_size=2))
    assert (cores_of(first), cores_of(second)) == ([4], [7])
    assert first.environment["OMP_NUM_THREADS"] == "1"
    assert first.environment["OMP_WAIT_POLICY"] == "PASSIVE"
    assert 0 < int(first.environment["GOMP_SPINCOUNT"]) < 100_000


def test_more_engines_than_cores_share_them_with_one_thread_each() -> None:
    for engine in engines(plan([0, 1], data_parallel_size=3)):
        assert cores_of(engine) == []
        assert engine.environment["OMP_NUM_THREADS"] == "1"


def test_threads_beyond_an_engines_share_undo_the_pinning() -> None:
    for engine in engines(plan([0, 1], data_parallel_size=2, threads_per_engine=2)):
        assert cores_of(engine) == []
        assert engine.environment["OMP_NUM_THREADS"] == "2"


@given(cores=st.sets(st.integers(0, 200), min_size=1, max_size=40), replicas=st.integers(1, 12))
def test_cores_of_engines_are_disjoint_equally_many_and_ours(
    cores: set[int], replicas: int
) -> None:
    shares = [cores_of(spec) for spec in engines(plan(list(cores), data_parallel_size=replicas))]
    taken = [core for share in shares for core in share]
    assert len(set(map(len, shares))) == 1
    assert len(taken) == len(set(taken))
    assert set(taken) <= cores
    assert len(taken) == len(cores) // replicas * replicas


@pytest.mark.parametrize(
    ("devices", "expected"), [(None, ["0", "1"]), ("3, GPU-8f2a", ["3", "GPU-8f2a"])]
)
def test_each_engine_sees_one_gpu(devices: str | None, expected: list[str]) -> None:
    specs = engines(plan([0, 1], device="cuda", devices=devices, data_parallel_size=2))
    assert [spec.environment["CUDA_VISIBLE_DEVICES"] for spec in specs] == expected
    assert all(cores_of(spec) == [] for spec in specs)


def test_engines_on_the_cpu_see_no_gpu() -> None:
    assert engines(plan([0]))[0].environment["CUDA_VISIBLE_DEVICES"] == ""
