"""The official OpenAI client of an application that listens on a port of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import openai
from starlette.applications import Starlette

from tests.support.served_app import served


@asynccontextmanager
async def official_client(
    app: Starlette, api_key: str = "none"
) -> AsyncIterator[openai.AsyncOpenAI]:
    """The client, which does not try again, while the application is served."""
    async with (
        served(app) as url,
        openai.AsyncOpenAI(
            base_url=f"{url}/v1",
            api_key=api_key,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False),
        ) as client,
    ):
        yield client
