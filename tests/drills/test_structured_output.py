"""JSON answers of the embedded model: every one is valid, also where its engine is killed."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tests.e2e.test_faults import check_equal
from tests.support.launched_cluster import LaunchedCluster, embedded_model
from tests.support.questions import QUESTIONS, as_chat
from tests.support.streaming_client import Answer, StreamingClient
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.drill

NUM_ANSWERS, CONCURRENCY = 100, 16
ANIMAL = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "legs": {"type": "integer", "minimum": 0, "maximum": 100},
        "habitat": {"enum": ["land", "water", "air"]},
        "colours": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3},
        "is_tame": {"type": ["boolean", "null"]},
    },
    "required": ["name", "legs", "habitat", "colours", "is_tame"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LaunchedCluster]:
    cluster = LaunchedCluster("--dp=2", "--frontends=2", *embedded_model())
    yield cluster.wait_until_ready()
    cluster.close()


def bodies() -> list[dict[str, Any]]:
    """Requests at temperature 1, which a small model answers with anything but JSON by itself."""
    return [
        {
            "prompt": as_chat(QUESTIONS[number % len(QUESTIONS)]),
            "max_tokens": 300,
            "temperature": 1.0,
            "seed": number,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": ANIMAL}},
        }
        for number in range(NUM_ANSWERS)
    ]  # fmt: skip


async def test_a_hundred_of_a_hundred_are_valid_and_a_killed_engine_changes_none(
    cluster: LaunchedCluster,
) -> None:
    async with StreamingClient(cluster.url) as client:
        expected = await client.complete_all(bodies(), CONCURRENCY)
        for answer in expected:
            assert answer.finish_reason == "stop"
            jsonschema.validate(json.loads(answer.text), ANIMAL)
        answers: list[Answer] = []
        everything = asyncio.create_task(client.complete_all(bodies(), CONCURRENCY, answers))
        await wait_until_async(lambda: sum(len(a.token_ids) for a in answers) > 500, 120)
        await asyncio.to_thread(cluster.kill, "engine 0")
        await everything
    check_equal(answers, expected)
    assert any(answer.num_migrations for answer in answers)
    cluster.wait_until_restarted("engine 0", incarnation=2)
