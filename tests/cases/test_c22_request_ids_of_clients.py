"""C22: a client's request id comes back, and tells no two requests apart inside.

vllm#10583, vllm#15041, vllm#27723, vllm#27987, transformers#48918.
"""

import asyncio

import httpx
import pytest

from frontend.middleware import MAX_REQUEST_ID_CHARACTERS
from frontend.request import GenerationRequest
from tests.support.frontend_app import encode, http_client
from tests.support.scripted_engine import ScriptedEngine
from tests.support.ways import Way

NUM_REQUESTS = 8


def by_seed(request: GenerationRequest) -> list[int]:
    """An answer of its own for each seed."""
    return [*encode(f"Answer {request.sampling.seed}"), 2]


async def ask(client: httpx.AsyncClient, way: Way, seed: int, request_id: str) -> httpx.Response:
    headers = {"x-request-id": request_id}
    return await client.post(way.path, json=way.body(seed=seed, n=2), headers=headers)


@pytest.mark.parametrize("num_frontends", [1, 2])
async def test_at_once_by_the_same_id_each_gets_its_own_answer(
    way: Way, num_frontends: int
) -> None:
    engine = ScriptedEngine(by_seed)
    async with http_client(engine) as first, http_client(engine) as second:
        clients = [first, second][:num_frontends]
        answers = await asyncio.gather(
            *(ask(clients[i % num_frontends], way, i, "the-same") for i in range(NUM_REQUESTS))
        )
    for seed, answer in enumerate(answers):
        assert answer.headers["x-request-id"] == "the-same"
        texts = [choice["text"] for choice in way.read(answer).choices]
        assert texts == [f"Answer {seed}"] * 2
    ids = {request.request_id for request in engine.submitted}
    assert len(ids) == 2 * NUM_REQUESTS
    assert not any("the-same" in request_id for request_id in ids)
    assert len(engine.finish_reasons) == 2 * NUM_REQUESTS
    assert not engine.aborted


async def test_the_same_seed_is_the_same_answer(way: Way) -> None:
    async with http_client(ScriptedEngine(by_seed)) as client:
        assert (await way.ask(client, seed=5)).text == "Answer 5"


@pytest.mark.parametrize("length", [1, MAX_REQUEST_ID_CHARACTERS])
async def test_an_id_of_sane_length_comes_back_as_it_is(
    way: Way, client: httpx.AsyncClient, length: int
) -> None:
    answer = await ask(client, way, 1, "x" * length)
    assert answer.headers["x-request-id"] == "x" * length


@pytest.mark.parametrize("length", [MAX_REQUEST_ID_CHARACTERS + 1, 10_000])
async def test_a_longer_one_is_cut(way: Way, client: httpx.AsyncClient, length: int) -> None:
    answer = await ask(client, way, 1, "x" * length)
    assert answer.headers["x-request-id"] == "x" * MAX_REQUEST_ID_CHARACTERS


async def test_one_with_an_encoded_newline_is_text_like_any_other(
    way: Way, client: httpx.AsyncClient
) -> None:
    answer = await ask(client, way, 1, "a%0d%0aset-cookie: x=y")
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("useless", ["", "\x01", "\xe9\x80"])
async def test_in_place_of_a_useless_one_there_is_a_fresh_one(
    way: Way, client: httpx.AsyncClient, useless: str
) -> None:
    headers = [(b"x-request-id", useless.encode("latin-1"))]
    answers = [await client.post(way.path, json=way.body(), headers=headers) for _ in range(2)]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.headers["x-request-id"] for answer in answers}) == 2


async def test_a_refusal_has_its_id_too(way: Way, client: httpx.AsyncClient) -> None:
    headers = {"x-request-id": "mine"}
    answer = await client.post(way.path, json={}, headers=headers)
    assert (answer.status_code, answer.headers["x-request-id"]) == (400, "mine")
