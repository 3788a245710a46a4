"""Vectors over the whole way: through engines that are killed, and of a real model."""

import asyncio
import base64
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from cluster.wire.sampling import Pooling
from frontend.app import build_app
from frontend.client import DPLBClient
from tests.integration.test_every_position import Served
from tests.support.engine_process import VOCAB_SIZE
from tests.support.frontend_app import MODEL, client_of_app
from tests.support.reference_model import ReferenceModel
from tests.support.simulated_runner import reference_vector
from tests.support.small_cluster import SmallCluster
from tests.support.tiny_tokenizer import tiny_tokenizer
from tests.support.waiting import wait_until_async

URL = "/v1/embeddings"
STEP_SECONDS = 0.03


@asynccontextmanager
async def served(cluster: SmallCluster) -> AsyncIterator[tuple[httpx.AsyncClient, DPLBClient]]:
    """An HTTP client of a frontend before these engines."""
    client = await cluster.start_client()
    model = type(MODEL)(name="tiny", max_model_len=1024, vocab_size=VOCAB_SIZE)
    app = build_app(cluster.config, model, tiny_tokenizer(), client)
    async with client_of_app(app) as http:
        yield http, client
    await cluster.close()


def bodies(count: int) -> list[dict[str, Any]]:
    """Ten prompts each, of all lengths that the engines take, those of a kind with equal beginnings."""
    source = random.Random(0)
    stem = source.choices(range(VOCAB_SIZE), k=400)
    return [
        {
            "input": [
                stem[: source.randrange(400)] + source.choices(range(600), k=source.randrange(1, 400))
                for _ in range(10)
            ],
            "pooling": ("mean", "last")[number % 2],
            "encoding_format": "base64",
        }
        for number in range(count)
    ]  # fmt: skip


async def check(http: httpx.AsyncClient, body: dict[str, Any]) -> None:
    """Ask, and compare every vector."""
    response = await http.post(URL, json=body, timeout=50)
    assert response.status_code == 200, response.text
    pooling = Pooling.LAST if body["pooling"] == "last" else Pooling.MEAN
    vectors = [base64.b64decode(datum["embedding"]) for datum in response.json()["data"]]
    assert vectors == [reference_vector(prompt, pooling).data for prompt in body["input"]]


async def has_begun(tasks: list[asyncio.Task[None]], client: DPLBClient) -> None:
    """Some answers are out, and engines are busy with others."""
    await wait_until_async(lambda: any(task.done() for task in tasks), 20)
    assert client.num_in_flight > 20


async def test_an_engine_that_is_killed_loses_no_vector(tmp_path: Path) -> None:
    cluster = SmallCluster(tmp_path, 3, STEP_SECONDS)
    async with served(cluster) as (http, client):
        tasks = [asyncio.create_task(check(http, body)) for body in bodies(24)]
        await has_begun(tasks, client)
        cluster.kill_engine(0)
        await asyncio.gather(*tasks)
        assert client.num_in_flight == 0
        results = await client.call_engines("check_invariants")
        assert [result.result for result in results.values()].count("true") == 2


async def test_with_all_engines_dead_inputs_wait_for_one(tmp_path: Path) -> None:
    cluster = SmallCluster(tmp_path, 2, STEP_SECONDS)
    async with served(cluster) as (http, client):
        tasks = [asyncio.create_task(check(http, body)) for body in bodies(16)]
        await has_begun(tasks, client)
        cluster.kill_engine(0)
        cluster.kill_engine(1)
        await wait_until_async(lambda: client.num_ready_engines == 0, 5)
        cluster.start_engine(1, incarnation=2)
        await asyncio.gather(*tasks)


async def test_inputs_are_spread_over_the_engines(tmp_path: Path) -> None:
    cluster = SmallCluster(tmp_path, 2, STEP_SECONDS)
    async with served(cluster) as (http, client):
        await check(http, bodies(1)[0])
        chosen = [decision["chosen"] for decision in client.decisions(10)]
        assert {chosen.count(0), chosen.count(1)} <= set(range(3, 8))


@pytest.mark.parametrize("pooling", ["mean", "last"])
async def test_a_real_model_s_vectors_are_those_of_transformers(
    tmp_path: Path, pooling: str
) -> None:
    model = Served(tmp_path)
    text = "The four horses of the quadriga run abreast"
    body = {"input": [text, "One"], "pooling": pooling, "normalize": False}
    answer = await model.ask(URL, body)
    reference = ReferenceModel(tmp_path)
    for value, datum in zip((text, "One"), answer["data"], strict=True):
        states = reference.hidden_states(model.tokenizer.encode(value, add_special_tokens=True))
        expected = states.mean(0) if pooling == "mean" else states[-1]
        ours = torch.tensor(datum["embedding"])
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-4)
