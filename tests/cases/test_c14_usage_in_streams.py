"""C14: a stream tells its usage only if asked, once at the end or, if so asked, on every chunk.

apfel#100, vllm#7262, ATOM#1711, llama.cpp#15444, ogx#6541, vllm#9028, vllm#9357, dynamo#11708.
"""

from typing import Any

import httpx
import pytest

from tests.support.frontend_app import events_of
from tests.support.scripted_engine import ScriptedEngine
from tests.support.ways import WAYS, Way, check_refused, name_of

STREAMS = [way for way in WAYS if way.is_streamed]
WHOLE = [way for way in WAYS if not way.is_streamed]
each_stream = pytest.mark.parametrize("way", STREAMS, ids=name_of)


async def events(client: httpx.AsyncClient, way: Way, **fields: Any) -> list[Any]:
    return events_of(await way.send(client, max_tokens=9, n=2, **fields))


def check_last(last: Any) -> None:
    assert last["choices"] == []
    usage = last["usage"]
    assert usage["completion_tokens"] == 2 * 9
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@each_stream
@pytest.mark.parametrize(
    "options", [..., None, {}, {"include_usage": False}, {"include_usage": None},
                {"continuous_usage_stats": True}],
)  # fmt: skip
async def test_unasked_there_is_none_and_every_chunk_has_a_choice(
    way: Way, client: httpx.AsyncClient, options: Any
) -> None:
    for event in await events(client, way, stream_options=options):
        assert "usage" not in event
        assert len(event["choices"]) == 1


@each_stream
async def test_asked_for_it_comes_once_in_a_last_chunk_without_choices(
    way: Way, client: httpx.AsyncClient
) -> None:
    *others, last = await events(client, way, stream_options={"include_usage": True})
    assert all(event["usage"] is None and event["choices"] for event in others)
    check_last(last)


@each_stream
async def test_continuously_it_counts_up_to_the_total_over_all_choices(
    way: Way, client: httpx.AsyncClient
) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    found = await events(client, way, stream_options=options)
    usages = [event["usage"] for event in found]
    counts = [usage["completion_tokens"] for usage in usages]
    assert counts == sorted(counts)
    assert counts[0] <= 2
    assert len({usage["prompt_tokens"] for usage in usages}) == 1
    assert usages[-2] == usages[-1]
    check_last(found[-1])


async def test_a_whole_answer_has_the_same_usage(way: Way, client: httpx.AsyncClient) -> None:
    other = Way(way.path, not way.is_streamed)
    assert (await way.ask(client)).usage == (await other.ask(client)).usage


@pytest.mark.parametrize("way", WHOLE, ids=name_of)
async def test_options_of_a_stream_need_one(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    answer = await way.send(client, stream_options={"include_usage": True})
    check_refused(answer, "stream_options")
    assert not engine.submitted


@each_stream
@pytest.mark.parametrize(
    ("options", "param"),
    [
        (5, "stream_options"),
        ({"include_usage": "yes"}, "stream_options.include_usage"),
        ({"continuous_usage_stats": 1}, "stream_options.continuous_usage_stats"),
    ],
)
async def test_malformed_options_are_refused(
    way: Way, client: httpx.AsyncClient, options: Any, param: str
) -> None:
    check_refused(await way.send(client, stream_options=options), param)
