"""Message requests to an application over a scripted engine."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from frontend.model_info import ModelInfo
from frontend.tokenizer import Tokenizer
from tests.support.frontend_app import http_client, make_app
from tests.support.scripted_engine import ScriptedEngine
from tests.support.tiny_tokenizer import CHAT_TEMPLATE, byte_level_backend

URL = "/v1/messages"
COUNT_URL = "/v1/messages/count_tokens"
MODEL = ModelInfo(name="tiny", max_model_len=2048, vocab_size=400, eos_token_ids=(2,))
TEMPLATE = (
    "{% if tools %}Tools in <tool_call>: {{ tools | tojson }}\n{% endif %}"
    "{% if enable_thinking is defined %}thinks: {{ enable_thinking }} {{ thinking }}\n{% endif %}"
    "{% if reasoning_effort %}effort: {{ reasoning_effort }}\n{% endif %}"
) + CHAT_TEMPLATE
BODY: dict[str, Any] = {
    "model": "tiny",
    "max_tokens": 500,
    "messages": [{"role": "user", "content": "Hi"}],
}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: list[Any] = [
    {"name": "weather", "description": "How warm it is", "input_schema": CITY},
    {"name": "now", "input_schema": {"type": "object", "properties": {}}},
]
ARGUMENTS = '{"city": "Köln"}'
WEATHER = '<tool_call>\n{"name": "weather", "arguments": ' + ARGUMENTS + "}\n</tool_call>"
NOW = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'


def app_of(engine: ScriptedEngine, template: str = TEMPLATE, **settings: Any) -> Any:
    """The application, its template one that takes tools."""
    return make_app(engine, MODEL, template, **settings)


@asynccontextmanager
async def asking(
    engine: ScriptedEngine, template: str = TEMPLATE, **settings: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the running application."""
    async with http_client(engine, MODEL, template, **settings) as client:
        yield client


async def ask(client: httpx.AsyncClient, **fields: Any) -> Any:
    """The whole answer."""
    answer = await client.post(URL, json={**BODY, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def stream(client: httpx.AsyncClient, **fields: Any) -> list[Any]:
    """The events of a stream."""
    answer = await client.post(URL, json={**BODY, **fields, "stream": True})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return events_of(answer.text)


def events_of(text: str) -> list[Any]:
    """The objects of the events, each of which is named as its object says."""
    events: list[Any] = []
    for frame in text.split("\n\n")[:-1]:
        name, data = frame.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def told_by(events: list[Any]) -> Any:
    """The message that the events tell, put together as they say."""
    message = events[0]["message"]
    texts: dict[int, str] = {}
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
            case "content_block_delta":
                _add(message["content"][event["index"]], event["delta"], texts, event["index"])
            case "message_delta":
                message |= event["delta"] | {"usage": event["usage"]}
            case _:
                pass
    for index, text in texts.items():
        message["content"][index]["input"] = json.loads(text)
    return message


def _add(block: Any, delta: Any, texts: dict[int, str], index: int) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "input_json_delta":
            texts[index] = texts.get(index, "") + delta["partial_json"]
        case other:
            raise AssertionError(other)


def prompt_of(engine: ScriptedEngine, index: int = -1) -> str:
    """The text that the engine was prompted with."""
    ids = engine.submitted[index].prompt_token_ids
    return Tokenizer(byte_level_backend()).decode(ids, skip_special_tokens=False)


def without_ids(message: Any) -> Any:
    """The message without what is fresh in every answer."""
    blocks = [{k: v for k, v in block.items() if k != "id"} for block in message["content"]]
    return {**message, "id": "", "content": blocks}
