"""pydantic-ai: a typed answer, and text as a stream."""

import asyncio
import json
import sys

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

QUESTION = "Which city is the capital of France?"


class City(BaseModel):
    """A city."""

    name: str
    is_capital: bool


async def ask(base_url: str, model: str) -> dict[str, object]:
    """What was answered."""
    chat = OpenAIChatModel(model, provider=OpenAIProvider(base_url=base_url, api_key="none"))
    typed = Agent(
        chat,
        output_type=NativeOutput(City),
        model_settings={"temperature": 0, "max_tokens": 100},
        retries=0,
    )
    plain = Agent(chat, model_settings={"temperature": 0, "max_tokens": 12})
    city = (await typed.run(QUESTION)).output
    async with plain.run_stream(QUESTION) as stream:
        deltas = [delta async for delta in stream.stream_text(delta=True)]
        usage = stream.usage
    return {
        "city": city.model_dump(),
        "text": "".join(deltas),
        "output_tokens": (usage() if callable(usage) else usage).output_tokens,
    }


sys.stdout.write(json.dumps(asyncio.run(ask(*sys.argv[1:]))))
