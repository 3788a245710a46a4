"""What POST /v1/messages refuses, and how."""

from typing import Any

import pytest

from cluster.errors import NotServing, Overloaded
from tests.frontend.anthropic.asking import BODY, TOOLS, URL, ask, asking
from tests.support.frontend_app import ANSWER, engine_that_says
from tests.support.tiny_tokenizer import CHAT_TEMPLATE

IMAGE = {"type": "image", "source": {"type": "url", "url": "x"}}


def said(*blocks: Any, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(blocks)}]}


USE = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t"}
SERVER_TOOL = {"type": "web_search_20250305", "name": "web_search"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": None}, "model"),
    ({"max_tokens": None}, "max_tokens"),
    ({"max_tokens": 0}, "max_tokens must be at least 1"),
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages must not be empty"),
    ({"messages": [{"role": "user"}]}, "messages[0].content is required"),
    (
        {"messages": [{"role": "wizard", "content": "x"}]},
        "messages[0].role must be one of assistant",
    ),
    (said(IMAGE), "messages[0].content[0].type"),
    (said({"type": "text", "text": "x"}, {"type": "document"}), "messages[0].content[1].type"),
    (said({**RESULT, "content": [IMAGE]}), "messages[0].content[0].content[0].type"),
    (said({"type": "text"}), "messages[0].content[0].text is required"),
    (said({**USE, "input": "x"}), "messages[0].content[0].input"),
    (said(USE), "messages[0].content[0].type"),
    (said(RESULT, role="assistant"), "messages[0].content[0].type"),
    (said(RESULT, role="system"), "messages[0].content[0].type"),
    (said(USE, role="assistant"), "messages[0]: a tool_result must follow"),
    ({"system": [IMAGE]}, "system[0].type"),
    ({"temperature": 1.01}, "temperature must be at most 1"),
    ({"temperature": -0.01}, "temperature must be at least 0"),
    ({"top_p": 1.01}, "top_p must be at most 1"),
    ({"top_p": 0}, "top_p must be above 0"),
    ({"top_k": -2}, "top_k must be at least -1"),
    ({"stop_sequences": [""]}, "stop_sequences"),
    ({"stop_sequences": "x"}, "stop_sequences"),
    ({"stop_sequences": ["x"] * 2000}, "stop_sequences"),
    ({"tools": [SERVER_TOOL]}, "tools[0].type must be one of"),
    ({"tools": [{"name": "f"}]}, "tools[0].input_schema is required"),
    ({"tools": [{"name": "a b", "input_schema": {}}]}, "tools[0].name"),
    ({"tools": [{"name": "f" * 129, "input_schema": {}}]}, "tools[0].name"),
    ({"tools": [{"name": "f", "input_schema": {"type": "array"}}]}, "tools[0].input_schema must"),
    ({"tool_choice": {"type": "any"}}, "tool_choice"),
    ({"tools": TOOLS, "tool_choice": {"type": "tool"}}, "tool_choice.name is required"),
    ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "g"}}, "tool_choice"),
    ({"tools": TOOLS, "tool_choice": {"type": "maybe"}}, "tool_choice.type"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens is required"),
    ({"thinking": {"type": "enabled", "budget_tokens": 1023}}, "thinking.budget_tokens must be at"),
    (
        {
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "tools": TOOLS,
            "tool_choice": {"type": "any"},
        },
        "thinking cannot be enabled",
    ),
    (
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "no"}}}},
        "output_config.format.schema",
    ),
    ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema is"),
    ({"mcp_servers": [{"url": "x"}]}, "mcp_servers is not supported"),
    ({"container": "c"}, "container is not supported"),
    ({"output_format": {"type": "json_schema"}}, "output_format is not supported"),
    ({"seed": 2**63}, "seed"),
    ({"priority": 2**31}, "priority"),
    ({"cache_salt": "a@b"}, "cache_salt"),
    ({"data_parallel_rank": -1}, "data_parallel_rank"),
]


@pytest.mark.parametrize(("fields", "words"), REFUSED)
@pytest.mark.parametrize("streamed", [False, True])
async def test_what_is_wrong_is_400_naming_the_field_before_an_engine_sees_it(
    fields: dict[str, Any], words: str, streamed: bool
) -> None:
    engine = engine_that_says(ANSWER)
    body = {**BODY, **fields, "stream": streamed}
    async with asking(engine) as client:
        answer = await client.post(URL, json={k: v for k, v in body.items() if v is not None})
        assert answer.status_code == 400, answer.text
        told = answer.json()
        assert (told["type"], told["error"]["type"]) == ("error", "invalid_request_error")
        assert told["error"]["message"].startswith(words)
        assert not engine.submitted


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 0},
        {"temperature": 1},
        {"top_p": 1, "top_k": -1},
        {"max_tokens": 1},
        {"stop_sequences": [], "tools": [], "mcp_servers": [], "system": ""},
        {"tools": [{"name": "f" * 128, "input_schema": {}, "type": "custom"}]},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]},
        {"messages": [{"role": "user", "content": []}]},
        {"stop_sequences": None, "system": None, "tool_choice": None, "thinking": None},
        {"unknown": [1], "cache_control": {"type": "ephemeral"}, "container": None},
        {"tool_choice": {"type": "auto"}},
        {"seed": 2**63 - 1, "priority": -(2**31) + 1},
        {
            "messages": [
                {"role": "assistant", "content": [{"type": "redacted_thinking", "data": ""}]}
            ]
        },
    ],
)
async def test_what_is_just_allowed_is_served(fields: dict[str, Any]) -> None:
    async with asking(engine_that_says(ANSWER)) as client:
        assert (await ask(client, **fields))["type"] == "message"


async def test_tools_that_the_model_would_never_hear_of_are_refused() -> None:
    engine = engine_that_says(ANSWER)
    async with asking(engine, CHAT_TEMPLATE) as client:
        answer = await client.post(URL, json={**BODY, "tools": TOOLS})
    assert answer.status_code == 400
    assert "has no place for tools" in answer.json()["error"]["message"]
    assert not engine.submitted


@pytest.mark.parametrize("fields", [{"messages": [{"role": "user", "content": "x " * 3000}]},
                                    {"max_tokens": 2047}])  # fmt: skip
@pytest.mark.parametrize("streamed", [False, True])
async def test_what_is_over_the_context_is_told_in_the_words_that_clients_look_for(
    fields: dict[str, Any], streamed: bool
) -> None:
    async with asking(engine_that_says(ANSWER)) as client:
        answer = await client.post(URL, json={**BODY, **fields, "stream": streamed})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("prompt is too long: This model's maximum")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Overloaded("too much", 7), 429, "rate_limit_error"),
        (NotServing("leaving", 7), 503, "overloaded_error"),
    ],
)
async def test_what_cannot_be_served_now_says_when_to_come_back(
    streamed: bool, error: Exception, status: int, kind: str
) -> None:
    async with asking(engine_that_says(ANSWER, submit_error=error)) as client:
        answer = await client.post(URL, json={**BODY, "stream": streamed})
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
    assert answer.headers["retry-after"] == "7"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_failure_before_the_first_token_is_an_http_status(streamed: bool) -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=0, error="it died")
    async with asking(engine) as client:
        answer = await client.post(URL, json={**BODY, "stream": streamed})
    assert answer.status_code == 500
    assert answer.json() == {
        "type": "error",
        "error": {"type": "api_error", "message": "it died"},
    }


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "kind"),
    [
        ("POST", URL, {}, 401, "authentication_error"),
        ("POST", f"{URL}/count_tokens", {"x-api-key": "wrong"}, 401, "authentication_error"),
        ("POST", f"{URL}/batches", {"x-api-key": "secret"}, 404, "not_found_error"),
        ("GET", URL, {"x-api-key": "secret"}, 405, "invalid_request_error"),
        ("POST", URL, {"x-api-key": "secret"}, 415, "invalid_request_error"),
    ],
)
async def test_every_error_under_the_path_has_anthropics_shape(
    method: str, path: str, headers: dict[str, str], status: int, kind: str
) -> None:
    async with asking(engine_that_says(ANSWER), api_key=["secret"]) as client:
        answer = await client.request(method, path, headers=headers)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
    assert set(answer.json()) == {"type", "error"}


async def test_a_body_over_the_limit_and_another_model_have_types_of_their_own() -> None:
    async with asking(engine_that_says(ANSWER), max_body_bytes=1024) as client:
        large = await client.post(URL, json={**BODY, "system": "x" * 2000})
        other = await client.post(URL, json={**BODY, "model": "other"})
    assert (large.status_code, large.json()["error"]["type"]) == (413, "request_too_large")
    assert (other.status_code, other.json()["error"]["type"]) == (404, "not_found_error")


async def test_errors_of_other_paths_keep_openais_shape() -> None:
    async with asking(engine_that_says(ANSWER)) as client:
        answer = await client.post("/v1/messages_other", json={})
    assert set(answer.json()) == {"error"}


async def test_versions_and_betas_in_headers_change_nothing() -> None:
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"}
    async with asking(engine_that_says(ANSWER)) as client:
        assert (await client.post(URL, json=BODY, headers=headers)).status_code == 200
