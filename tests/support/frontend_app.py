"""The frontend's application over a scripted engine, with an HTTP client in the same process."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.applications import Starlette

from cluster.config import ClusterConfig, EngineConfig, FrontendConfig
from frontend.app import build_app
from frontend.model_info import ModelInfo
from frontend.tokenizer import Tokenizer
from tests.support.scripted_engine import ScriptedEngine
from tests.support.tiny_tokenizer import (
    SPECIAL_TOKENS,
    VOCAB_SIZE,
    byte_level_backend,
    tiny_tokenizer,
)

MODEL = ModelInfo(name="tiny", max_model_len=128, vocab_size=VOCAB_SIZE, eos_token_ids=(2,))
ANSWER = "Hello there! How are you today? 😀 漢字"


def encode(text: str) -> list[int]:
    """The tokens of a text, nothing added."""
    return tiny_tokenizer().encode(text, add_special_tokens=False)


def engine_that_says(text: str, **settings: Any) -> ScriptedEngine:
    """An engine that answers everything with this text and the end-of-text token."""
    token_ids = [*encode(text), 2]
    return ScriptedEngine(lambda _: token_ids, **settings)


def make_app(
    engine: ScriptedEngine,
    model: ModelInfo = MODEL,
    template: str | None = None,
    **frontend_settings: Any,
) -> Starlette:
    """The application, its lifespan not begun; with a chat template, also of a byte-level tokenizer."""
    config = ClusterConfig(
        engine=EngineConfig(block_size=4), frontend=FrontendConfig(**frontend_settings)
    )
    tokenizer = (
        tiny_tokenizer()
        if template is None
        else Tokenizer(byte_level_backend(), SPECIAL_TOKENS, template)
    )
    return build_app(config, model, tokenizer, engine)


@asynccontextmanager
async def client_of_app(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """A client of this application, which runs meanwhile."""
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield client


@asynccontextmanager
async def http_client(
    engine: ScriptedEngine,
    model: ModelInfo = MODEL,
    template: str | None = None,
    **frontend_settings: Any,
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a running application; ends the engine's answers at the end."""
    async with client_of_app(make_app(engine, model, template, **frontend_settings)) as client:
        yield client
    await engine.close()


def events_of(response: httpx.Response) -> list[Any]:
    """The JSON objects of a stream that ended well."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in response.text.split("\n\n") if line and not line.startswith(":")]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
