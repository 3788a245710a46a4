"""Counts that are settings: so many are taken, one more is refused by name, before any engine."""

from typing import Any

import pytest

from cluster.config import FrontendConfig
from cluster.errors import InvalidRequest
from frontend.openai.schemas import ChatBody
from frontend.request_limits import RequestLimits
from tests.support.frontend_app import ANSWER, engine_that_says, http_client

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGE = {"role": "user", "content": "x"}
TOOL = {"type": "function", "function": {"name": "f"}}


def body_of(count: int, field: str) -> tuple[str, dict[str, Any]]:
    """A path and a body with so many of what the field counts."""
    chat: dict[str, Any] = {"messages": [MESSAGE], "max_tokens": 1}
    text: dict[str, Any] = {"prompt": "x", "max_tokens": 1}
    match field:
        case "messages":
            return CHAT, chat | {"messages": [MESSAGE] * count}
        case "tools":
            return CHAT, chat | {"tools": [TOOL] * count, "tool_choice": "none"}
        case "functions":
            return CHAT, chat | {"functions": [TOOL["function"]] * count, "function_call": "none"}
        case "stop":
            return COMPLETIONS, text | {"stop": [f"s{i}" for i in range(count)]}
        case "prompt":
            return COMPLETIONS, text | {"prompt": ["x"] * count}
        case _:
            return COMPLETIONS, text | {"n": count}


@pytest.mark.parametrize(
    ("setting", "field"),
    [("max_messages", "messages"), ("max_tools", "tools"), ("max_tools", "functions"),
     ("max_stop_strings", "stop"), ("max_prompts", "prompt"), ("max_choices", "n")],
)  # fmt: skip
@pytest.mark.parametrize("streamed", [False, True])
async def test_so_many_are_taken_and_no_more(setting: str, field: str, streamed: bool) -> None:
    engine = engine_that_says(ANSWER)
    limits: dict[str, Any] = {setting: 3}
    async with http_client(engine, **limits) as client:
        path, body = body_of(4, field)
        refused = await client.post(path, json={**body, "stream": streamed})
        error = refused.json()["error"]
        assert (refused.status_code, error["param"]) == (400, field)
        assert "3" in error["message"]
        assert not engine.submitted
        path, body = body_of(3, field)
        assert (await client.post(path, json={**body, "stream": streamed})).status_code == 200


async def test_token_ids_are_one_prompt_and_answers_count_over_all_prompts() -> None:
    async with http_client(engine_that_says(ANSWER), max_prompts=2, max_choices=4) as client:
        for prompt, n, status in [
            ([5, 6, 7, 8], 1, 200),
            ([[5, 6], [7]], 2, 200),
            ([[5], [6], [7]], 1, 400),
            (["x", "y"], 3, 400),
        ]:
            body = {"prompt": prompt, "n": n, "max_tokens": 1}
            assert (await client.post(COMPLETIONS, json=body)).status_code == status, body


async def test_tokenizing_has_the_same_limits() -> None:
    async with http_client(engine_that_says(ANSWER), max_messages=3) as client:
        refused = await client.post("/tokenize", json={"messages": [MESSAGE] * 4})
        assert refused.json()["error"]["param"] == "messages"


def nested(depth: int) -> Any:
    value: Any = {}
    for number in range(depth - 1):
        value = [value] if number % 2 else {"x": value}
    return value


@pytest.mark.parametrize(("depth", "is_taken"), [(19, True), (20, False), (400, False)])
def test_lists_and_objects_may_be_inside_each_other_so_often(depth: int, is_taken: bool) -> None:
    limits = RequestLimits.of(FrontendConfig(max_json_depth=20))
    body = ChatBody(messages=[], chat_template_kwargs={"x": nested(depth)})
    if is_taken:
        limits.check(body)
        return
    with pytest.raises(InvalidRequest, match="deeper than 20 levels") as caught:
        limits.check(body)
    assert caught.value.param == "chat_template_kwargs"


async def test_a_schema_that_is_too_deep_is_refused_by_its_field() -> None:
    engine = engine_that_says(ANSWER)
    tool = {"type": "function", "function": {"name": "f", "parameters": nested(60)}}
    async with http_client(engine, max_json_depth=50) as client:
        body = {"messages": [MESSAGE], "tools": [tool]}
        refused = await client.post(CHAT, json=body)
        assert refused.json()["error"]["param"] == "tools"
        assert not engine.submitted
