"""What import-linter proves of the source, seen in a running interpreter.

Some imports hide: `from transformers import AutoTokenizer` loads torch where it is installed, and a
function may import when it is called.
"""

import subprocess
import sys

import pytest

from tests.architecture.repository import ROOMS, ROOT, modules

HTTP = {"starlette", "hypercorn", "httpx", "uvicorn"}
TENSORS = {"torch", "transformers", "numpy"}

THINKING_PARTS = (
    "engine.core",
    "engine.request",
    "engine.stats",
    "engine.scheduling",
    "engine.kv_cache",
    "coordinator.cluster_state",
    "cluster.launch.restart_policy",
    "frontend.balancer",
    "frontend.routing",
    "frontend.engine_book",
)


def loaded_packages(module_names: list[str]) -> set[str]:
    """Top-level names in `sys.modules` of a fresh interpreter that has imported these modules."""
    script = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    child = subprocess.run(
        [sys.executable, "-P", "-c", script, *module_names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return set(child.stdout.split())


def ground() -> list[str]:
    """All of `cluster` but the roof, and the door to it (`python -m cluster`)."""
    return [
        name
        for name in modules("cluster")
        if not name.startswith(("cluster.launch", "cluster.operate", "cluster.__main__"))
    ]


def test_the_ground_floor_stands_alone() -> None:
    assert not loaded_packages(ground()) & (HTTP | TENSORS | set(ROOMS))


def test_the_ground_floor_does_not_load_the_launcher() -> None:
    script = f"import {', '.join([*ground(), 'sys'])}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "cluster.wire.messages" in loaded.split()
    assert "cluster.launch" not in loaded.split()


def test_the_launcher_knows_rooms_by_name_only() -> None:
    roof = [name for name in modules("cluster.launch") if not name.endswith("__main__")]
    assert not loaded_packages(roof) & (HTTP | {"torch", "transformers"} | set(ROOMS))


def test_the_frontend_has_no_tensors_and_no_other_room() -> None:
    loaded = loaded_packages(modules("frontend"))
    assert "starlette" in loaded
    assert not loaded & {"torch", "transformers", "engine", "coordinator"}


def test_the_coordinator_has_neither_http_nor_tensors_and_no_other_room() -> None:
    assert not loaded_packages(modules("coordinator")) & (HTTP | TENSORS | {"engine", "frontend"})


def test_the_engine_has_no_http_and_no_other_room() -> None:
    loaded = loaded_packages(modules("engine"))
    assert "torch" in loaded
    assert not loaded & {"starlette", "hypercorn", "frontend", "coordinator"}


@pytest.mark.parametrize("part", THINKING_PARTS)
def test_a_thinking_part_runs_without_tensors_sockets_or_event_loop(part: str) -> None:
    assert not loaded_packages(modules(part) or [part]) & {"torch", "zmq", "asyncio"}
