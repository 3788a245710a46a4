"""The embedded model: sensible answers, prefix hits, and streams that survive an engine."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.e2e.test_faults import check_equal
from tests.support.launched_cluster import LaunchedCluster, embedded_model
from tests.support.streaming_client import Answer, StreamingClient
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

QUESTIONS = [
    "What is the capital of France?", "Name three colours.", "Why is the sky blue?",
    "Write one sentence about horses.", "What is two plus two?", "Who wrote Hamlet?",
    "Give me a recipe for tea.", "What is a chariot?",
]  # fmt: skip


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
KINDS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 0, "stop": ["."]},
    {"temperature": 0.8, "seed": 1},
    {"temperature": 0.8, "seed": 2, "top_k": 20, "top_p": 0.9, "min_p": 0.05, "logprobs": 2},
    {"temperature": 0.8, "seed": 3, "ignore_eos": True},
    {"temperature": 0, "presence_penalty": 1.0, "frequency_penalty": 0.5},
    {"temperature": 0, "repetition_penalty": 1.3},
    {"temperature": 0, "logit_bias": {"260": 5}},
    {"temperature": 0, "bad_words": ["the", "France"]},
    {"temperature": 0.5, "seed": 4, "min_tokens": 20},
    {"temperature": 0, "max_tokens": 1},
    {"temperature": 0, "guided_json": CITY},
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LaunchedCluster]:
    cluster = LaunchedCluster("--dp=2", "--frontends=2", *embedded_model())
    yield cluster.wait_until_ready()
    cluster.close()


def test_it_knows_the_capital_of_france(cluster: LaunchedCluster) -> None:
    client = openai.OpenAI(base_url=f"{cluster.url}/v1", api_key="none", max_retries=0)
    answer = client.chat.completions.create(
        model=client.models.list().data[0].id,
        messages=[{"role": "user", "content": QUESTIONS[0]}],
        temperature=0,
    )
    assert answer.choices[0].message.content is not None
    assert "Paris" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"


async def test_a_known_prefix_is_answered_alike_and_sooner(cluster: LaunchedCluster) -> None:
    prompt = [1000 + (7 * position) % 40000 for position in range(1010)]
    first_token_seconds: list[float] = []
    assert cluster.post("/reset_prefix_cache").status_code == 200
    answers: list[Answer] = []
    async with StreamingClient(cluster.url) as client:
        for _ in range(2):
            asked_at = time.monotonic()
            answers.append(
                await client.complete(
                    prompt=prompt,
                    max_tokens=8,
                    temperature=0,
                    ignore_eos=True,
                    data_parallel_rank=1,
                )
            )
            first_token_seconds.append(answers[-1].arrivals[0] - asked_at)
    cached = [(answer.usage or {})["prompt_tokens_details"]["cached_tokens"] for answer in answers]
    assert cached == [0, 1008]
    assert answers[0].token_ids == answers[1].token_ids
    assert first_token_seconds[0] > 3 * first_token_seconds[1], first_token_seconds


async def test_streams_of_a_killed_engine_go_on_bit_for_bit(cluster: LaunchedCluster) -> None:
    bodies: list[dict[str, Any]] = [
        {"prompt": question, "max_tokens": 60, "ignore_eos": True, "seed": number,
         "temperature": 0.7 * (number % 2)}
        for number, question in enumerate(QUESTIONS)
    ]  # fmt: skip
    answers: list[Answer] = []
    async with StreamingClient(cluster.url) as client:
        expected = await client.complete_all(bodies, concurrency=8)
        everything = asyncio.create_task(client.complete_all(bodies, 8, answers))
        await wait_until_async(lambda: sum(len(a.token_ids) > 5 for a in answers) == 8, 60)
        await asyncio.to_thread(cluster.kill, "engine 0")
        await everything
    check_equal(answers, expected)
    assert any(answer.num_migrations for answer in answers)
    cluster.wait_until_restarted("engine 0", incarnation=2)


async def test_answers_of_every_kind_are_the_same_where_steps_overlap(
    cluster: LaunchedCluster,
) -> None:
    overlapping = LaunchedCluster(
        "--dp=1", "--frontends=1", "--async-scheduling", "--check-invariants", *embedded_model()
    )
    bodies = [
        {"prompt": question, "max_tokens": 32, **kind}
        for kind, question in zip(KINDS, itertools.cycle(QUESTIONS), strict=False)
    ]
    try:
        overlapping.wait_until_ready()
        answers = []
        for one in (cluster, overlapping):
            async with StreamingClient(one.url) as client:
                answers.append(await client.complete_all(bodies, concurrency=12))
    finally:
        overlapping.close()
    check_equal(answers[1], answers[0])
