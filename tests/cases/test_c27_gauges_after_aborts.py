"""C27: when all clients leave at the same moment, the gauges fall to 0 without another request.

vllm#22545, vllm#29928, vllm#31503, vllm#55634.
"""

import asyncio

import pytest

from tests.support.launched_cluster import LaunchedCluster
from tests.support.streaming_client import Answer, StreamingClient
from tests.support.waiting import wait_until, wait_until_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

NUM_STREAMS = 30
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")


def are_gauges_down(cluster: LaunchedCluster) -> bool:
    return not any(cluster.metric(f"quadriga_{gauge}") for gauge in GAUGES)


def num_aborted(cluster: LaunchedCluster) -> float:
    return cluster.metric("quadriga_request_success_total", finished_reason="abort")


async def test_thirty_streams_cut_at_once(cluster: LaunchedCluster) -> None:
    aborted = num_aborted(cluster)
    tokens = cluster.metric("quadriga_generation_tokens_total")
    answers: list[Answer] = []
    bodies = [{"prompt": [5] * 50, "max_tokens": 3500, "ignore_eos": True}] * NUM_STREAMS
    async with StreamingClient(cluster.url) as client:
        everything = asyncio.create_task(client.complete_all(bodies, NUM_STREAMS, answers))
        await wait_until_async(lambda: sum(bool(a.token_ids) for a in answers) == NUM_STREAMS, 30)
        everything.cancel()
        await asyncio.gather(everything, return_exceptions=True)
    wait_until(lambda: are_gauges_down(cluster), 5)
    wait_until(lambda: num_aborted(cluster) - aborted >= NUM_STREAMS, 5)
    assert num_aborted(cluster) - aborted == NUM_STREAMS
    told = sum(len(answer.token_ids) for answer in answers)
    assert cluster.metric("quadriga_generation_tokens_total") - tokens >= told
    assert are_gauges_down(cluster)
