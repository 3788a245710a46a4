"""POST /v1/messages/count_tokens."""

from typing import Any

import pytest

from tests.frontend.anthropic.asking import BODY, COUNT_URL, TOOLS, ask, asking
from tests.support.frontend_app import ANSWER, engine_that_says

PROMPT = {name: value for name, value in BODY.items() if name != "max_tokens"}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"system": "Be kind"},
        {"tools": TOOLS, "tool_choice": {"type": "auto"}},
        {"messages": [*BODY["messages"], {"role": "assistant", "content": "Well"}]},
        {"thinking": {"type": "disabled"}},
    ],
)
async def test_the_count_is_that_of_the_same_message_request(fields: dict[str, Any]) -> None:
    engine = engine_that_says(ANSWER)
    async with asking(engine) as client:
        counted = await client.post(COUNT_URL, json={**PROMPT, **fields})
        assert not engine.submitted
        usage = (await ask(client, **fields))["usage"]
    assert counted.json() == {"input_tokens": usage["input_tokens"]}


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"messages": []}, 400, "messages must not be empty"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, 400, "messages[0]."),
        ({"model": "other"}, 404, "The model"),
        (
            {"tools": [{"name": "f", "input_schema": {"type": "null"}}]},
            400,
            "tools[0].input_schema",
        ),
    ],
)
async def test_what_is_wrong_is_refused_in_the_same_words(
    fields: dict[str, Any], status: int, words: str
) -> None:
    async with asking(engine_that_says(ANSWER)) as client:
        answer = await client.post(COUNT_URL, json={**PROMPT, **fields})
    assert answer.status_code == status
    assert answer.json()["error"]["message"].startswith(words)


async def test_a_prompt_over_the_context_is_counted_all_the_same() -> None:
    long = {"messages": [{"role": "user", "content": "x " * 3000}]}
    async with asking(engine_that_says(ANSWER)) as client:
        answer = await client.post(COUNT_URL, json={**PROMPT, **long})
    assert answer.json()["input_tokens"] > 2048
