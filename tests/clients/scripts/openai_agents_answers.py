"""openai-agents over chat completions: one forced call of a tool, and the answer after it."""

import asyncio
import json
import sys

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

set_tracing_disabled(True)
cities: list[str] = []


def weather(city: str) -> str:
    """The weather in a city."""
    cities.append(city)
    return "fine"


async def ask(base_url: str, model: str) -> dict[str, object]:
    """What was answered."""
    client = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)
    agent = Agent(
        name="forecaster",
        instructions="Answer in one sentence.",
        tools=[function_tool(weather)],
        tool_use_behavior="stop_on_first_tool",
        model=OpenAIChatCompletionsModel(model=model, openai_client=client),
        model_settings=ModelSettings(temperature=0, max_tokens=60, tool_choice="weather"),
    )
    outcome = await Runner.run(agent, "What is the weather in Paris?")
    return {"output": outcome.final_output, "calls": len(cities)}


sys.stdout.write(json.dumps(asyncio.run(ask(*sys.argv[1:]))))
