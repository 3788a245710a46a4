"""C07: `max_completion_tokens` is the limit by its newer name, never ignored.

llama-cpp-python#1907, ik_llama.cpp#2321, TGI#2925, voideditor/void#128.
"""

from typing import Any

import httpx
import pytest

from tests.support.scripted_engine import ScriptedEngine
from tests.support.ways import CHAT_PATH, COMPLETIONS_PATH, Way, check_refused

CHATS = [Way(CHAT_PATH, streamed) for streamed in (False, True)]


@pytest.mark.parametrize("way", CHATS, ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "fields",
    [
        {"max_completion_tokens": 5},
        {"max_completion_tokens": 5, "max_tokens": 50},
        {"max_completion_tokens": 5, "max_tokens": 3},
        {"max_completion_tokens": 5, "max_tokens": None},
        {"max_completion_tokens": None, "max_tokens": 5},
    ],
)
async def test_the_answer_has_so_many_tokens_and_the_newer_name_wins(
    client: httpx.AsyncClient, way: Way, fields: dict[str, Any]
) -> None:
    reply = await way.ask(client, **fields)
    assert reply.usage is not None
    assert reply.usage["completion_tokens"] == 5
    assert reply.finish_reason == "length"


@pytest.mark.parametrize("way", CHATS, ids=["whole", "streamed"])
@pytest.mark.parametrize("wrong", [0, -1, 1.5, "5", True])
async def test_a_wrong_limit_is_refused_by_the_name_that_was_used(
    engine: ScriptedEngine, client: httpx.AsyncClient, way: Way, wrong: Any
) -> None:
    answer = await way.send(client, max_completion_tokens=wrong, max_tokens=5)
    check_refused(answer, "max_completion_tokens")
    assert not engine.submitted


@pytest.mark.parametrize("way", CHATS, ids=["whole", "streamed"])
async def test_it_must_fit_the_context(client: httpx.AsyncClient, way: Way) -> None:
    prompt_tokens = ((await way.ask(client)).usage or {})["prompt_tokens"]
    fits = 128 - prompt_tokens
    await way.ask(client, max_completion_tokens=fits)
    answer = await way.send(client, max_completion_tokens=fits + 1)
    check_refused(answer, "messages", "context_length_exceeded")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_completion_does_not_ignore_it(client: httpx.AsyncClient, streamed: bool) -> None:
    way = Way(COMPLETIONS_PATH, streamed)
    answer = await way.send(client, max_completion_tokens=5)
    if answer.status_code == 400:
        check_refused(answer, "max_completion_tokens")
    else:
        reply = await way.ask(client, max_completion_tokens=5)
        assert reply.usage is not None
        assert reply.usage["completion_tokens"] == 5
