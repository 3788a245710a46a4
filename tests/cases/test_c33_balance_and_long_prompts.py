"""C33: a burst is spread over the engines, and a long prompt holds up nobody's tokens.

vllm#22910, vllm#47420, vllm#36748, vllm#40279, vllm#21617, vllm#21495, local-inference-lab/vllm#541.
"""

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from tests.support.launched_cluster import LaunchedCluster
from tests.support.streaming_client import Answer, StreamingClient
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

NUM_REQUESTS = 40
LONG_TOKENS = 3300
"""Four fifths of the context, and most of a second of work."""


def body(number: int, num_prompt_tokens: int, max_tokens: int) -> dict[str, Any]:
    prompt = [5 + number] + [6] * (num_prompt_tokens - 1)
    return {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True}


def engines_of(answers: list[Answer]) -> Counter[int]:
    return Counter((answer.extension or {})["engines"][0] for answer in answers)


async def test_a_burst_is_spread(cluster: LaunchedCluster) -> None:
    bodies = [body(number, 30, 40) for number in range(NUM_REQUESTS)]
    async with StreamingClient(cluster.url) as client:
        answers = await client.complete_all(bodies, NUM_REQUESTS)
    assert all(answer.is_whole for answer in answers)
    counts = engines_of(answers)
    assert set(counts) == {0, 1}
    assert max(counts.values()) <= 0.7 * NUM_REQUESTS


async def test_running_streams_go_on_beside_a_long_prompt(cluster: LaunchedCluster) -> None:
    running: list[Answer] = []
    pinned = {"data_parallel_rank": 0}
    async with StreamingClient(cluster.url) as client:
        bodies = [body(number, 10, 400) | pinned for number in range(4)]
        others = asyncio.create_task(client.complete_all(bodies, 4, running))
        await wait_until_async(lambda: sum(bool(a.token_ids) for a in running) == 4, 30)
        asked_at = asyncio.get_running_loop().time()
        long = await client.complete(**(body(90, LONG_TOKENS, 1) | pinned))
        others.cancel()
        await asyncio.gather(others, return_exceptions=True)
    assert long.is_whole
    prefill_seconds = long.arrivals[0] - asked_at
    for answer in running:
        during = [at for at in answer.arrivals if asked_at <= at <= long.arrivals[0]]
        assert len(during) > 5
        gaps = [later - earlier for earlier, later in pairwise(during)]
        assert max(gaps) < prefill_seconds / 2


async def test_short_prompts_do_not_wait_for_a_long_one(cluster: LaunchedCluster) -> None:
    async with StreamingClient(cluster.url) as client:
        loop = asyncio.get_running_loop()
        long = asyncio.create_task(client.complete(**body(91, LONG_TOKENS, 100)))
        asked_at = loop.time()
        short = await client.complete_all([body(number, 20, 5) for number in range(20)], 20)
        long_answer = await long
    assert all(answer.is_whole for answer in [*short, long_answer])
    assert max(answer.arrivals[0] for answer in short) - asked_at < (
        long_answer.arrivals[-1] - asked_at
    )
