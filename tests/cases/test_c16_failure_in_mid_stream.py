"""C16: a stream whose engine dies goes on elsewhere; one that cannot ends as an error, not as a success.

mistral.rs#1874, vllm#48707, sglang-omni#442, openclaw#108989.
"""

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.conftest import Launch
from tests.support.frontend_app import ANSWER, engine_that_says, http_client
from tests.support.launched_cluster import LaunchedCluster
from tests.support.streaming_client import Answer, StreamingClient
from tests.support.waiting import wait_until_async
from tests.support.ways import WAYS, Way, check_refused, name_of

STREAMS = [way for way in WAYS if way.is_streamed]
POISON = [7, 7, 9]
FAULT = "--inject-fault=segfault:prompt=7-7-9:output=20"
NUM_TOKENS = 150


@pytest.mark.parametrize("way", STREAMS, ids=name_of)
@pytest.mark.parametrize("n", [1, 3])
async def test_the_last_event_is_the_error_and_nothing_looks_like_a_good_end(
    way: Way, n: int
) -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=3, error="it died")
    async with http_client(engine) as client:
        options = {"include_usage": True}
        answer = await way.send(client, n=n, stream_options=options)
        assert answer.status_code == 200
        *events, last = answer.text.rstrip("\n").split("\n\n")
        error = json.loads(last.removeprefix("data: "))["error"]
        assert (error["message"], error["code"]) == ("it died", "engine_failed")
        assert set(error) == {"message", "type", "param", "code"}
        chunks = [json.loads(event.removeprefix("data: ")) for event in events]
        assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks)
        assert "[DONE]" not in answer.text


async def test_before_the_first_token_it_is_an_http_status(way: Way) -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=0, error="it died")
    async with http_client(engine) as client:
        check_refused(await way.send(client), None, "engine_failed", 500)


def body(number: int) -> dict[str, Any]:
    return {
        "prompt": [20 + number, 30, 40],
        "max_tokens": NUM_TOKENS,
        "ignore_eos": True,
        "seed": number,
    }


async def stream_all(cluster: LaunchedCluster, answers: list[Answer]) -> None:
    async with StreamingClient(cluster.url) as client:
        await client.complete_all([body(number) for number in range(6)], 6, answers)


def raised_by_poison(cluster: LaunchedCluster) -> tuple[int, Exception | None]:
    """How many chunks the official client has got before its stream failed, and how it did."""
    client = openai.OpenAI(base_url=f"{cluster.url}/v1", api_key="none", max_retries=0)
    num_chunks = 0
    try:
        for _ in client.completions.create(
            model="tiny", prompt=POISON, stream=True, max_tokens=60, extra_body={"ignore_eos": True}
        ):
            num_chunks += 1
    except openai.APIError as error:
        return num_chunks, error
    return num_chunks, None


@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_what_ends_its_engines_ends_as_an_error_and_all_others_go_on(launch: Launch) -> None:
    cluster = launch("--dp=2", "--frontends=1", "--max-restarts=20", FAULT)
    expected: list[Answer] = []
    await stream_all(cluster, expected)
    assert all(answer.is_whole for answer in expected)
    answers: list[Answer] = []
    others = asyncio.create_task(stream_all(cluster, answers))
    await wait_until_async(lambda: sum(bool(answer.token_ids) for answer in answers) == 6)
    num_chunks, error = await asyncio.to_thread(raised_by_poison, cluster)
    assert num_chunks >= 15
    assert isinstance(error, openai.APIError)
    assert not isinstance(error, openai.APIConnectionError)
    assert "SIGSEGV" in error.message
    await others
    assert [answer.text for answer in answers] == [answer.text for answer in expected]
    assert all(answer.is_whole for answer in answers)
    assert any(answer.num_migrations for answer in answers)
    await asyncio.to_thread(cluster.wait_until_ready)
    await asyncio.to_thread(kill_under_a_stream, cluster)


def kill_under_a_stream(cluster: LaunchedCluster) -> None:
    """A `kill -9` of all engines ends no stream."""
    fields = body(0) | {"stream": True, "max_tokens": 300}
    url = f"{cluster.url}/v1/completions"
    with httpx.stream("POST", url, json=fields, timeout=60, trust_env=False) as answer:
        lines = filter(None, answer.iter_lines())
        next(lines)
        cluster.kill("engine 0")
        cluster.kill("engine 1")
        *_, last = lines
    assert last == "data: [DONE]"
