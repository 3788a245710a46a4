from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import Launch
from tests.integration.test_every_position import Served
from tests.support.frontend_app import ANSWER, engine_that_says, http_client
from tests.support.launched_cluster import LaunchedCluster
from tests.support.scripted_engine import ScriptedEngine
from tests.support.tiny_model import make_tiny_model
from tests.support.ways import WAYS, Way, name_of


@pytest.fixture(params=WAYS, ids=name_of)
def way(request: pytest.FixtureRequest) -> Way:
    """Each of the four ways to ask."""
    found = request.param
    assert isinstance(found, Way)
    return found


@pytest.fixture
async def engine() -> ScriptedEngine:
    """One that says the same to everything."""
    return engine_that_says(ANSWER)


@pytest.fixture
async def client(engine: ScriptedEngine) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application over that engine."""
    async with http_client(engine) as client:
        yield client


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    """A real tiny model in this process."""
    return Served(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
async def model_client(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application over the tiny model, nothing of it computed yet."""
    async with served.client() as (client, _):
        yield client


@pytest.fixture(scope="package")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What simulated engines and frontends need of a model."""
    return make_tiny_model(tmp_path_factory.mktemp("folder"), max_model_len=4096)


@pytest.fixture(scope="package")
def cluster(model_folder: Path) -> Iterator[LaunchedCluster]:
    """Two simulated engines and four frontends, for tests that leave it as it was."""
    cluster = LaunchedCluster(
        *simulated(model_folder), "--dp=2", "--frontends=4", "--max-restarts=20",
        "--simulated-prefill-rate=4000", "--check-invariants",
    )  # fmt: skip
    yield cluster.wait_until_ready()
    cluster.close()


@pytest.fixture(scope="package")
def small_cluster(model_folder: Path) -> Iterator[LaunchedCluster]:
    """One engine with two places, and next to no room for those that wait."""
    cluster = LaunchedCluster(
        *simulated(model_folder), "--dp=1", "--frontends=1", "--max-num-seqs=2",
        "--max-queued-requests=4", "--keep-alive-timeout=1", "--simulated-step-seconds=0.02",
    )  # fmt: skip
    yield cluster.wait_until_ready()
    cluster.close()


@pytest.fixture
def launch(model_folder: Path) -> Iterator[Launch]:
    """Starts clusters of simulated engines, and ends them after the test."""
    clusters: list[LaunchedCluster] = []

    def start(*flags: str) -> LaunchedCluster:
        clusters.append(LaunchedCluster(*simulated(model_folder), *flags))
        return clusters[-1].wait_until_ready()

    yield start
    for cluster in clusters:
        cluster.close()


def simulated(model_folder: Path) -> list[str]:
    """The flags of a cluster of simulated engines over this folder."""
    return ["--engine=simulated", f"--model={model_folder}", "--served-model-name=tiny"]
