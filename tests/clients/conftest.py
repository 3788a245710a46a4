from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.balancer import Balancer, BalancerName
from tests.support.launched_cluster import LaunchedCluster, embedded_model
from tests.support.tiny_model import make_tiny_model

Simulate = Callable[[int], LaunchedCluster]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("tiny"), max_model_len=4096)


@pytest.fixture(scope="module")
def simulate(tiny_model: Path) -> Iterator[Simulate]:
    """Starts clusters of simulated engines on a port, 0 for any, and ends them with the module."""
    clusters: list[LaunchedCluster] = []

    def start(port: int) -> LaunchedCluster:
        cluster = LaunchedCluster(
            f"--model={tiny_model}", "--engine=simulated", "--dp=1", "--frontends=2",
            "--kv-cache-memory=64MiB", f"--port={port}",
        )  # fmt: skip
        clusters.append(cluster)
        return cluster

    yield start
    for cluster in clusters:
        cluster.close()


@pytest.fixture(scope="module")
def clusters(simulate: Simulate) -> list[LaunchedCluster]:
    """Two clusters that stay."""
    return [cluster.wait_until_ready() for cluster in (simulate(0), simulate(0))]


@pytest.fixture(scope="module", params=["haproxy", "nginx"])
def name(request: pytest.FixtureRequest) -> BalancerName:
    chosen: BalancerName = request.param
    return chosen


@pytest.fixture(scope="module")
def balancer(
    name: BalancerName, clusters: list[LaunchedCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Balancer]:
    """In front of the two."""
    servers = [cluster.url.removeprefix("http://") for cluster in clusters]
    with Balancer(name, servers, tmp_path_factory.mktemp(name)) as balancer:
        yield balancer


@pytest.fixture(scope="session")
def embedded_cluster() -> Iterator[LaunchedCluster]:
    """Two engines with the embedded model, for clients whose answers have to make sense."""
    cluster = LaunchedCluster("--dp=2", "--frontends=2", *embedded_model())
    yield cluster.wait_until_ready()
    cluster.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty home folder for other people's programs."""
    return tmp_path_factory.mktemp("home")
