"""Asks the Responses API of an application whose model says what it is told to."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import openai
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from starlette.applications import Starlette

from frontend.model_info import ModelInfo
from tests.support.frontend_app import engine_that_says, http_client, make_app
from tests.support.official_client import official_client
from tests.support.scripted_engine import ScriptedEngine
from tests.support.tiny_tokenizer import CHAT_TEMPLATE

URL = "/v1/responses"
MODEL = ModelInfo(name="tiny", max_model_len=2048, vocab_size=400, eos_token_ids=(2,))
TEMPLATE = "{% if tools %}Tools in <tool_call>: {{ tools | tojson }}\n{% endif %}" + CHAT_TEMPLATE
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: list[Any] = [
    {"type": "function", "name": "weather", "parameters": CITY, "strict": True},
    {"type": "function", "name": "now", "parameters": None, "strict": None},
]
ARGUMENTS = '{"city": "Köln"}'
WEATHER = '<tool_call>\n{"name": "weather", "arguments": ' + ARGUMENTS + "}\n</tool_call>"
NOW = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
THINKS = {"reasoning_parser": "qwen3"}

_ANY_EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)


def app_of(engine: ScriptedEngine, template: str = TEMPLATE, **settings: Any) -> Starlette:
    """The application of a model with this chat template."""
    return make_app(engine, MODEL, template, **settings)


@asynccontextmanager
async def http_client_of(
    engine: ScriptedEngine, template: str = TEMPLATE, **settings: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application in this process."""
    async with http_client(engine, MODEL, template, **settings) as client:
        yield client


@asynccontextmanager
async def official_client_of(
    engine: ScriptedEngine, template: str = TEMPLATE, **settings: Any
) -> AsyncIterator[openai.AsyncOpenAI]:
    """The official client of the application, which listens on a port of its own."""
    async with official_client(app_of(engine, template, **settings)) as client:
        yield client
    await engine.close()


def events_of(response: httpx.Response) -> list[Any]:
    """The events of a stream, each as the official types want it, with its name and number."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    events: list[Any] = []
    for frame in response.text.split("\n\n"):
        if not frame or frame.startswith(":"):
            continue
        name, data = frame.split("\n")
        event = json.loads(data.removeprefix("data: "))
        _ANY_EVENT.validate_json(data.removeprefix("data: "), strict=True)
        assert name == f"event: {event['type']}"
        assert event["sequence_number"] == len(events)
        events.append(event)
    return events


async def ask(text: str, *, settings: Any = None, **fields: Any) -> Any:
    """The whole answer of a model that says this, as the official types want it."""
    async with http_client_of(engine_that_says(text), **(settings or {})) as client:
        answer = await client.post(URL, json={"input": "Hi", **fields})
    assert answer.status_code == 200, answer.text
    Response.model_validate_json(answer.text, strict=True)
    return answer.json()


async def stream(
    text: str, *, settings: Any = None, tokens_per_batch: int = 1, **fields: Any
) -> list[Any]:
    """The events of a model that says this."""
    engine = engine_that_says(text, tokens_per_batch=tokens_per_batch)
    async with http_client_of(engine, **(settings or {})) as client:
        body = {"input": "Hi", "stream": True, **fields}
        return events_of(await client.post(URL, json=body))


def without_what_is_fresh(value: Any) -> Any:
    """The same JSON without ids and times, which two answers never share."""
    if isinstance(value, list):
        return [without_what_is_fresh(item) for item in value]
    if isinstance(value, dict):
        fresh = ("id", "call_id", "item_id", "created_at", "completed_at")
        return {k: without_what_is_fresh(v) for k, v in value.items() if k not in fresh}
    return value
