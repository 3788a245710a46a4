"""C32: what is refused for the client's fault, or for lack of room, says nothing against an engine.

sglang#25811, sglang#26713, sglang#39464, Infera#82.
"""

import asyncio
from typing import Any

import httpx
import pytest

from tests.support.launched_cluster import LaunchedCluster
from tests.support.waiting import wait_until
from tests.support.ways import Way

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

INVALID: list[dict[str, Any]] = [
    {"max_tokens": 5000},
    {"temperature": 3},
    {"logit_bias": {"999999": 1}},
    {"model": "other"},
    {"n": 0},
]
NUM_INVALID = 100


def engines(cluster: LaunchedCluster) -> list[tuple[Any, ...]]:
    """What would change if something were held against an engine."""
    return [
        (engine["rank"], engine["incarnation"], engine["state"], engine["chosen_here"])
        for engine in cluster.engines()
    ]


async def test_after_a_hundred_wrong_requests_a_right_one_is_served(
    way: Way, cluster: LaunchedCluster
) -> None:
    before = engines(cluster)
    async with httpx.AsyncClient(base_url=cluster.url, timeout=60, trust_env=False) as client:
        bodies = [INVALID[number % len(INVALID)] for number in range(NUM_INVALID)]
        answers = await asyncio.gather(*(way.send(client, **fields) for fields in bodies))
        too_long = await way.send(client, "word " * 5000)
        assert {answer.status_code for answer in [*answers, too_long]} == {400, 404}
        used = {
            (await way.send(client, max_tokens=1, data_parallel_rank=rank)).status_code
            for rank in (0, 1)
        }
    assert used == {200}
    assert engines(cluster) == before


async def test_after_a_full_queue_the_next_request_is_served(
    way: Way, small_cluster: LaunchedCluster
) -> None:
    before = engines(small_cluster)
    async with httpx.AsyncClient(base_url=small_cluster.url, timeout=60, trust_env=False) as client:
        answers = await asyncio.gather(
            *(way.send(client, max_tokens=10, ignore_eos=True) for _ in range(40))
        )
        assert 429 in {answer.status_code for answer in answers}
        wait_until(small_cluster.is_idle, 5)
        for _ in range(5):
            await way.ask(client, max_tokens=1)
    assert engines(small_cluster) == before
