"""C02: an assistant's turn that is nothing but calls has no content, and is kept with its calls.

lmstudio-bug-tracker#261, mlx-openai-server#205, mlx-vlm#1864, llama.cpp#19056.
"""

from typing import Any

import httpx
import pytest

from tests.support.scripted_engine import ScriptedEngine
from tests.support.ways import CHAT_PATH, check_refused

USER = {"role": "user", "content": "Hi"}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "42"}
RENDERED = "<|im_start|>assistant\n<call>f({})<|im_end|>\n<|im_start|>tool\n42<|im_end|>"


def call(arguments: Any = "{}") -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}


def conversation(turn: dict[str, Any], result: dict[str, Any] = RESULT) -> list[dict[str, Any]]:
    return [USER, {"role": "assistant", **turn}, result]


async def rendered(client: httpx.AsyncClient, messages: list[dict[str, Any]]) -> str:
    tokens = (await client.post("/tokenize", json={"messages": messages})).json()["tokens"]
    return str((await client.post("/detokenize", json={"tokens": tokens})).json()["prompt"])


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "turn",
    [
        {"content": None, "tool_calls": [call()]},
        {"tool_calls": [call()]},
        {"content": "", "tool_calls": [call()]},
        {"content": [], "tool_calls": [call()]},
        {"content": [{"type": "text", "text": ""}], "tool_calls": [call()]},
        {"content": None, "tool_calls": [call("")]},
        {"content": None, "tool_calls": [call(None)]},
        {"content": None, "tool_calls": [call({})]},
        {"content": None, "tool_calls": [call()], "refusal": None, "audio": None},
        {"content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"content": None, "function_call": {"name": "f", "arguments": ""}, "tool_calls": []},
    ],
)
async def test_no_content_is_empty_text_and_the_call_is_kept(
    client: httpx.AsyncClient, turn: dict[str, Any], streamed: bool
) -> None:
    messages = conversation(turn)
    assert RENDERED in await rendered(client, messages)
    answer = await client.post(CHAT_PATH, json={"messages": messages, "stream": streamed})
    assert answer.status_code == 200, answer.text


async def test_content_beside_a_call_is_kept_too(client: httpx.AsyncClient) -> None:
    text = await rendered(client, conversation({"content": "So:", "tool_calls": [call(), call()]}))
    assert "assistant\nSo:<call>f({})<call>f({})" in text


async def test_a_functions_answer_is_a_tools_by_its_older_name(client: httpx.AsyncClient) -> None:
    turn = {"content": None, "function_call": {"name": "f", "arguments": "{}"}}
    older = conversation(turn, {"role": "function", "name": "f", "content": "42"})
    assert RENDERED in await rendered(client, older)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("turn", "param"),
    [
        ({"tool_calls": [call("{")]}, "messages[1].tool_calls[0].function.arguments"),
        ({"tool_calls": [call(), call("5")]}, "messages[1].tool_calls[1].function.arguments"),
        ({"tool_calls": [{"id": "c1"}]}, "messages[1].tool_calls[0].function"),
        ({"tool_calls": 5}, "messages[1].tool_calls"),
        ({"function_call": {"name": "f", "arguments": "{"}}, "messages[1].function_call.arguments"),
        ({"function_call": {"arguments": "{}"}}, "messages[1].function_call.name"),
        (
            {"function_call": {"name": "f"}, "tool_calls": [call()]},
            "messages[1].function_call",
        ),
    ],
)
async def test_a_malformed_call_is_refused_by_its_place(
    engine: ScriptedEngine,
    client: httpx.AsyncClient,
    turn: dict[str, Any],
    param: str,
    streamed: bool,
) -> None:
    body = {"messages": conversation({"content": None, **turn}), "stream": streamed}
    check_refused(await client.post(CHAT_PATH, json=body), param)
    assert not engine.submitted
