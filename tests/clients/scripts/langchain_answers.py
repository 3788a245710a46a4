"""LangChain's ChatOpenAI: invoke, stream, bound tools, structured output."""

import json
import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

QUESTION = "What is the capital of France?"


class City(BaseModel):
    """A city."""

    name: str
    is_capital: bool


def weather(city: str) -> str:
    """The weather in a city."""
    return f"fine in {city}"


def main(base_url: str, model: str) -> None:
    """Print what was answered."""
    chat = ChatOpenAI(
        base_url=base_url, api_key="none", model=model, temperature=0, max_tokens=60,
        max_retries=0, stream_usage=True, use_responses_api=False,
    )  # fmt: skip
    weather_tool = tool(weather)
    whole = chat.invoke(QUESTION)
    chunks = list(chat.stream(QUESTION))
    joined = chunks[0]
    for chunk in chunks[1:]:
        joined += chunk
    bound = chat.bind_tools([weather_tool], tool_choice="weather")
    call = bound.invoke(QUESTION)
    after = chat.bind_tools([weather_tool], tool_choice="none").invoke(
        [("user", QUESTION), call, weather_tool.invoke(call.tool_calls[0])]
    )
    structured = {
        method: chat.with_structured_output(City, method=method).invoke(QUESTION).model_dump()
        for method in ("json_schema", "function_calling")
    }
    answers = {
        "whole": whole.content,
        "usage": whole.usage_metadata,
        "finish_reason": whole.response_metadata["finish_reason"],
        "streamed": joined.content,
        "streamed_usage": joined.usage_metadata,
        "streamed_finish_reason": joined.response_metadata["finish_reason"],
        "num_chunks": len(chunks),
        "calls": [{"name": c["name"], "args": c["args"]} for c in call.tool_calls],
        "after": after.content,
        "structured": structured,
    }
    sys.stdout.write(json.dumps(answers))


main(*sys.argv[1:])
