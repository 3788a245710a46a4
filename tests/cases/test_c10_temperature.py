"""C10: a temperature near zero is greedy and disturbs no neighbour; one outside 0 to 2 is refused.

microsoft/aici#19, vllm-tt-plugin#11, llama-cpp-python#1384.
"""

import asyncio
import json
from typing import Any

import httpx

from tests.support.scripted_engine import ScriptedEngine
from tests.support.ways import Way, check_refused

TEMPERATURES = [0, 1e-300, 1e-9, 1e-5, 1e-4, 0.7, 1, 2]
WRONG: list[Any] = [2.01, 2.0000001, -0.1, -1e-9, "0.5", True, [], 10**400]
GREEDY = [0, 1e-300, 1e-9, 1e-5, 1e-4]
SETTINGS: dict[str, Any] = {
    "max_tokens": 12,
    "seed": 7,
    "logprobs": True,
    "ignore_eos": True,
    "return_token_ids": True,
}


def settings(way: Way) -> dict[str, Any]:
    return SETTINGS if way.is_chat else SETTINGS | {"logprobs": 0}


def logprobs_of(choice: dict[str, Any]) -> list[float]:
    columns = choice["logprobs"]
    if "content" in columns:
        return [item["logprob"] for item in columns["content"]]
    return list(columns["token_logprobs"])


async def test_in_one_batch_tiny_values_are_greedy_and_nobody_is_disturbed(
    way: Way, model_client: httpx.AsyncClient
) -> None:
    async def ask(temperature: float) -> Any:
        reply = await way.ask(model_client, temperature=temperature, **settings(way))
        return reply.choices[0]

    alone = [await ask(temperature) for temperature in TEMPERATURES]
    together = await asyncio.gather(*(ask(temperature) for temperature in TEMPERATURES))
    assert list(together) == alone
    greedy = [choice["token_ids"] for choice in together[: len(GREEDY)]]
    assert greedy == [greedy[0]] * len(GREEDY)
    for choice in together:
        assert all(-9999.0 <= value <= 0 for value in logprobs_of(choice))


async def test_outside_it_is_refused(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    for wrong in WRONG:
        check_refused(await way.send(client, temperature=wrong), "temperature")
    assert not engine.submitted


async def test_what_json_has_no_number_for_is_refused(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    headers = {"content-type": "application/json"}
    body = json.dumps(way.body(temperature=12345))
    for word in ("NaN", "Infinity", "-Infinity", "1e999"):
        content = body.replace("12345", word)
        answer = await client.post(way.path, content=content, headers=headers)
        assert answer.status_code == 400, (word, answer.text)
    assert not engine.submitted


async def test_the_ends_are_taken(way: Way, client: httpx.AsyncClient) -> None:
    for taken in (0, 2, 0.0, 2.0, None, 1):
        await way.ask(client, temperature=taken)
