from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.launched_cluster import LaunchedCluster
from tests.support.tiny_model import make_tiny_model

Launch = Callable[..., LaunchedCluster]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model small enough that everything but the model is what takes time."""
    return make_tiny_model(tmp_path_factory.mktemp("tiny"), max_model_len=4096)


@pytest.fixture
def launch() -> Iterator[Launch]:
    """Starts clusters, and ends them after the test; no child may survive."""
    clusters: list[LaunchedCluster] = []

    def start(*flags: str) -> LaunchedCluster:
        clusters.append(LaunchedCluster(*flags))
        return clusters[-1].wait_until_ready()

    yield start
    for cluster in clusters:
        cluster.close()


@pytest.fixture(scope="module")
def tiny_cluster(tiny_model: Path) -> Iterator[LaunchedCluster]:
    """Two engines and four frontends over the tiny model, for tests that leave it as it was."""
    cluster = LaunchedCluster(
        f"--model={tiny_model}", "--served-model-name=tiny", "--dp=2", "--frontends=4",
        "--kv-cache-memory=64MiB", "--check-invariants",
    )  # fmt: skip
    yield cluster.wait_until_ready()
    cluster.close()
