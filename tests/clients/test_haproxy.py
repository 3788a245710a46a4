"""What HAProxy's health checks see."""

import signal
from pathlib import Path

import httpx
import pytest

from tests.clients.balancer import Balancer
from tests.support.launched_cluster import LaunchedCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]


@pytest.fixture
def haproxy(clusters: list[LaunchedCluster], tmp_path: Path) -> Balancer:
    servers = [cluster.url.removeprefix("http://") for cluster in clusters]
    return Balancer("haproxy", servers, tmp_path)


def test_a_cluster_without_a_ready_engine_is_taken_out_and_in_again(
    haproxy: Balancer, clusters: list[LaunchedCluster]
) -> None:
    with haproxy:
        wait_until(lambda: haproxy.server_states() == {"a": "UP", "b": "UP"}, 10)
        incarnation = clusters[0].find("engine 0").incarnation
        clusters[0].signal("engine 0", signal.SIGSTOP)
        wait_until(lambda: haproxy.server_states()["a"] == "DOWN", 30)
        assert haproxy.server_states()["b"] == "UP"
        clusters[0].wait_until_restarted("engine 0", incarnation + 1)
        wait_until(lambda: haproxy.server_states()["a"] == "UP", 30)


def test_refused_requests_do_not_count_against_a_server(haproxy: Balancer) -> None:
    with haproxy:
        for _ in range(50):
            refused = httpx.post(
                f"{haproxy.url}/v1/completions", json={"prompt": "x", "n": -1}, trust_env=False
            )
            assert refused.status_code == 400
        assert haproxy.server_states() == {"a": "UP", "b": "UP"}
