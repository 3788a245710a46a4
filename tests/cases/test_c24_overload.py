"""C24: what there is no room for is refused at once with a time to come back, and the rest is served.

vllm#41250, Guardrails#2334, pytorch/serve#2764, kubeai#11.
"""

import asyncio
import time

import httpx
import openai
import pytest

from cluster.errors import NotServing, Overloaded
from tests.support.frontend_app import ANSWER, engine_that_says, http_client
from tests.support.launched_cluster import LaunchedCluster
from tests.support.waiting import wait_until
from tests.support.ways import Way, check_refused

NUM_REQUESTS = 24
LEAST_SERVED = 2 + 4
"""The engine's places, and those of the queue."""


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [(Overloaded("full", 7), 429, "overloaded"), (NotServing("leaving", 7), 503, "not_serving")],
)
async def test_a_refusal_is_an_error_object_with_a_time_to_come_back(
    way: Way, error: Exception, status: int, code: str
) -> None:
    engine = engine_that_says(ANSWER, room_error=error)
    async with http_client(engine) as client:
        answer = await way.send(client)
        check_refused(answer, None, code, status)
        assert answer.headers["retry-after"] == "7"
        assert not engine.submitted


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_beyond_the_queue_all_are_refused_at_once_and_none_of_the_others_fails(
    way: Way, small_cluster: LaunchedCluster
) -> None:
    limits = httpx.Limits(max_connections=NUM_REQUESTS)
    async with httpx.AsyncClient(
        base_url=small_cluster.url, timeout=60, trust_env=False, limits=limits
    ) as client:

        async def ask() -> tuple[httpx.Response, float]:
            asked_at = time.monotonic()
            answer = await way.send(client, max_tokens=12, ignore_eos=True)
            return answer, time.monotonic() - asked_at

        answers = await asyncio.gather(*(ask() for _ in range(NUM_REQUESTS)))
    statuses = [answer.status_code for answer, _ in answers]
    assert set(statuses) == {200, 429}
    assert statuses.count(200) >= LEAST_SERVED
    for answer, seconds in answers:
        if answer.status_code == 429:
            check_refused(answer, None, "overloaded", 429)
            assert int(answer.headers["retry-after"]) >= 1
            assert seconds < min(took for good, took in answers if good.status_code == 200) + 0.5
        elif way.is_streamed:
            assert answer.text.endswith("data: [DONE]\n\n")
    wait_until(small_cluster.is_idle, 5)
    assert small_cluster.metric("quadriga_engine_up") == 1


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_the_official_client_comes_back_by_itself(small_cluster: LaunchedCluster) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{small_cluster.url}/v1", api_key="none", max_retries=8
    ) as client:
        answers = await asyncio.gather(
            *(
                client.completions.create(model="tiny", prompt="Hi", max_tokens=10)
                for _ in range(12)
            )
        )
    assert all(answer.choices[0].finish_reason for answer in answers)
