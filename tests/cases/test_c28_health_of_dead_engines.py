"""C28: a dead or frozen engine is found and told, and alive is another answer than ready.

vllm#39863, vllm#24897, vllm#36451, omlx#1884, sglang#10827.
"""

import os
import signal
from typing import Any

import pytest

from tests.e2e.conftest import Launch
from tests.support.frontend_app import ANSWER, engine_that_says, http_client
from tests.support.launched_cluster import LaunchedCluster
from tests.support.processes import is_running
from tests.support.waiting import wait_until


async def test_with_no_engine_left_or_coming_neither_answer_is_200() -> None:
    engine = engine_that_says(ANSWER, num_ready_engines=0)
    async with http_client(engine) as client:
        assert (await client.get("/health")).status_code == 200  # they come back
        assert (await client.get("/ready")).status_code == 503
        engine.are_all_engines_dead = True
        assert (await client.get("/health")).status_code == 503


def told(cluster: LaunchedCluster, path: str) -> tuple[int, dict[str, Any]]:
    answer = cluster.get(path)
    return answer.status_code, answer.json()


def has_ready(cluster: LaunchedCluster, num_engines: int) -> bool:
    return bool(told(cluster, "/ready")[1]["ready_engines"] == num_engines)


def serves(cluster: LaunchedCluster) -> bool:
    return cluster.post("/v1/completions", prompt="Hi", max_tokens=2).status_code == 200


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_one_killed_all_killed_and_one_frozen(launch: Launch) -> None:
    # Without restarts at once, each death can be seen for a second.
    cluster = launch("--dp=2", "--frontends=1", "--max-restarts=0")
    assert told(cluster, "/ready") == (200, told(cluster, "/ready")[1] | {"status": "ready"})

    cluster.kill("engine 0")
    wait_until(lambda: has_ready(cluster, 1), 5)
    status, body = told(cluster, "/ready")
    assert (status, body["status"], body["engines"]) == (200, "degraded", 2)
    assert told(cluster, "/health")[0] == 200
    assert cluster.metric("quadriga_engine_up", engine="0") == 0
    assert cluster.metric("quadriga_engine_up", engine="1") == 1
    assert serves(cluster)

    cluster.kill("engine 1")
    wait_until(lambda: told(cluster, "/ready")[0] == 503, 5)
    assert told(cluster, "/health")[1]["status"] == "unavailable"
    cluster.wait_until_ready()
    assert serves(cluster)

    pid = cluster.signal("engine 0", signal.SIGSTOP)
    wait_until(lambda: has_ready(cluster, 1), 3 + 5)  # --hang-timeout, and the verdict's way
    assert serves(cluster)
    if is_running(pid):
        os.kill(pid, signal.SIGCONT)
    cluster.wait_until_ready()
    assert told(cluster, "/ready")[1]["status"] == "ready"
