"""The official OpenAI client of an application that listens on a port of its own."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import hypercorn.asyncio
import openai
from hypercorn.config import Config
from starlette.applications import Starlette


@asynccontextmanager
async def official_client(
    app: Starlette, api_key: str = "none"
) -> AsyncIterator[openai.AsyncOpenAI]:
    """The client, which does not try again, while the application is served."""
    stopping = asyncio.Event()
    config = Config()
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 1
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        config.bind = [f"fd://{listener.detach()}"]
    serving = asyncio.create_task(
        hypercorn.asyncio.serve(app, config, shutdown_trigger=stopping.wait)  # type: ignore[arg-type] # its own Scope type
    )
    async with openai.AsyncOpenAI(
        base_url=f"http://127.0.0.1:{port}/v1",
        api_key=api_key,
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(trust_env=False),
    ) as client:
        yield client
    stopping.set()
    await serving
