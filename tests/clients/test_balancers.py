"""HAProxy and nginx in front of two clusters, configured by the files that are shipped."""

import asyncio
import signal
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.clients.balancer import SHIPPED_SERVERS, Balancer, BalancerName
from tests.clients.conftest import Simulate
from tests.clients.ports import free_ports
from tests.clients.steady_load import SteadyLoad
from tests.support.launched_cluster import LaunchedCluster
from tests.support.streaming_client import Answer, StreamingClient

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

NUM_SHORT_REQUESTS = 10_000
LONG_ANSWER_TOKENS = 50
"""Half a second, in which a client that does not stream hears nothing."""
STREAM: dict[str, Any] = {"prompt": [5, 6, 7], "max_tokens": 100, "ignore_eos": True}


def test_the_shipped_configuration_is_accepted(name: BalancerName, tmp_path: Path) -> None:
    said = Balancer(name, SHIPPED_SERVERS, tmp_path).check()
    assert "warn" not in said.lower()


async def test_a_stream_comes_token_by_token(
    balancer: Balancer, clusters: list[LaunchedCluster]
) -> None:
    async with StreamingClient(clusters[0].url) as client:
        direct = await client.complete(**STREAM)
    async with StreamingClient(balancer.url) as client:
        balanced = await client.complete(**STREAM)
    assert balanced.is_whole
    assert len(balanced.arrivals) > 0.8 * len(direct.arrivals)
    assert balanced.longest_gap_seconds < direct.longest_gap_seconds + 0.25
    lengths = [answer.arrivals[-1] - answer.arrivals[0] for answer in (direct, balanced)]
    assert lengths[1] > 0.7 * lengths[0]


async def test_ten_thousand_short_requests_reuse_connections_and_none_fails(
    balancer: Balancer, clusters: list[LaunchedCluster]
) -> None:
    async with SteadyLoad(balancer.url, num_connections=32) as load:
        await load.wait_for_more(NUM_SHORT_REQUESTS, 240)
    assert load.outcomes == {"200": load.outcomes.total()}
    ports = {int(cluster.url.rpartition(":")[2]) for cluster in clusters}
    closed = [
        connection
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_TIME_WAIT
        and ports & {address.port for address in (connection.laddr, connection.raddr) if address}
    ]
    assert len(closed) < NUM_SHORT_REQUESTS / 20


async def test_a_killed_frontend_costs_no_request_that_has_no_answer_yet(
    balancer: Balancer, clusters: list[LaunchedCluster]
) -> None:
    async with SteadyLoad(balancer.url, max_tokens=LONG_ANSWER_TOKENS) as load:
        # Of both frontends of a cluster one at least has requests when it is killed.
        for cluster, frontend in product(clusters, ("frontend 0", "frontend 1")):
            incarnation = cluster.find(frontend).incarnation
            await load.wait_for_more(50)
            await asyncio.to_thread(cluster.kill, frontend)
            await asyncio.to_thread(cluster.wait_until_restarted, frontend, incarnation + 1)
        await load.wait_for_more(50)
    assert load.outcomes == {"200": load.outcomes.total()}


async def test_a_frontend_that_is_told_to_end_costs_no_request(
    balancer: Balancer, clusters: list[LaunchedCluster]
) -> None:
    incarnation = clusters[0].find("frontend 1").incarnation
    async with SteadyLoad(balancer.url) as load:
        await load.wait_for_more(200)
        await asyncio.to_thread(clusters[0].signal, "frontend 1", signal.SIGTERM)
        await asyncio.to_thread(clusters[0].wait_until_restarted, "frontend 1", incarnation + 1)
        await load.wait_for_more(200)
    assert load.outcomes == {"200": load.outcomes.total()}


async def test_a_cluster_that_stops_and_starts_again_costs_no_request(
    name: BalancerName, simulate: Simulate, clusters: list[LaunchedCluster], tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    leaving = simulate(port).wait_until_ready()
    servers = [cluster.url.removeprefix("http://") for cluster in (leaving, clusters[1])]
    with Balancer(name, servers, tmp_path) as balancer:
        async with SteadyLoad(balancer.url) as load, StreamingClient(balancer.url) as client:
            answers: list[Answer] = []
            streams = asyncio.create_task(client.complete_all([STREAM] * 8, 8, answers))
            await load.wait_for_more(100)
            assert await asyncio.to_thread(leaving.stop) == 0
            await streams
            await load.wait_for_more(200)
            returned = simulate(port)
            await asyncio.to_thread(returned.wait_until_ready)
            await load.wait_for_more(500)
        answered = returned.metric("quadriga_request_success_total")
        returned.stop()
    assert all(answer.is_whole for answer in answers), [answer.error for answer in answers]
    assert load.outcomes == {"200": load.outcomes.total()}
    assert answered > 0


def test_what_is_the_operators_is_not_passed_on(balancer: Balancer) -> None:
    for path in ("/metrics", "/cluster", "/cluster/decisions"):
        answer = httpx.get(balancer.url + path, trust_env=False)
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == "not served here"


def test_with_no_server_left_clients_are_told_to_come_again(
    name: BalancerName, simulate: Simulate, tmp_path: Path
) -> None:
    cluster = simulate(0).wait_until_ready()
    away = f"127.0.0.1:{free_ports(1)[0]}"
    with Balancer(name, [cluster.url.removeprefix("http://"), away], tmp_path) as balancer:
        cluster.stop()
        answer = httpx.post(
            f"{balancer.url}/v1/completions", json=STREAM, timeout=60, trust_env=False
        )
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    assert answer.json()["error"]["message"] == "no server is ready"
