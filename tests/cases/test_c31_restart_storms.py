"""C31: an engine that dies at every start is tried ever more rarely, and one that is back is served anew.

curie#2637, trusty-tools#3631, habitat#3060, libzmq#1575, libzmq#778, pyzmq#1899.
"""

import time

import pytest

from tests.e2e.conftest import Launch
from tests.support.launched_cluster import LaunchedCluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

LEAST_BACK_OFF_SECONDS = 0.75 * (1 + 2)


def ask(cluster: LaunchedCluster, rank: int) -> str:
    answer = cluster.post(
        "/v1/completions", prompt="Hi", max_tokens=8, temperature=0, data_parallel_rank=rank
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["quadriga"]["engines"] == [rank]
    return str(answer.json()["choices"][0]["text"])


@pytest.mark.drill
def test_two_failed_starts_are_waited_out_and_the_other_engine_serves_on(launch: Launch) -> None:
    faults = [f"--inject-fault=fail-start:rank=1:incarnation={number}" for number in (2, 3, 4)]
    cluster = launch("--dp=2", "--frontends=1", "--max-restarts=1", *faults)
    expected = ask(cluster, 1)
    assert ask(cluster, 0) == expected
    killed_at = time.monotonic()
    cluster.kill("engine 1")
    assert ask(cluster, 0) == expected
    cluster.wait_until_restarted("engine 1", incarnation=5)
    assert time.monotonic() - killed_at > LEAST_BACK_OFF_SECONDS
    assert cluster.metric("quadriga_engine_restarts_total", engine="1") == 4
    assert cluster.metric("quadriga_engine_restarts_total", engine="0") == 0
    assert [ask(cluster, 1) for _ in range(10)] == [expected] * 10


def test_an_engine_that_comes_back_again_and_again_is_spoken_to_each_time(
    cluster: LaunchedCluster,
) -> None:
    expected = ask(cluster, 0)
    for _ in range(2):
        incarnation = cluster.find("engine 0").incarnation
        cluster.kill("engine 0")
        cluster.wait_until_restarted("engine 0", incarnation + 1)
        cluster.wait_until_ready()
        assert [ask(cluster, 0) for _ in range(5)] == [expected] * 5
