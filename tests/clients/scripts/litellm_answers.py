"""LiteLLM with both of its prefixes for servers like this one."""

import json
import sys
from typing import Any

import litellm

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def ask(prefix: str, base_url: str, model: str) -> dict[str, Any]:
    """The answer whole, and as a stream that LiteLLM puts together again."""
    settings: dict[str, Any] = {
        "model": f"{prefix}/{model}", "api_base": base_url, "api_key": "none", "messages": QUESTION,
        "max_tokens": 12, "temperature": 0, "num_retries": 0,
    }  # fmt: skip
    whole = litellm.completion(**settings)
    chunks = list(
        litellm.completion(**settings, stream=True, stream_options={"include_usage": True})
    )
    built = litellm.stream_chunk_builder(chunks, messages=QUESTION)
    try:
        litellm.completion(**{**settings, "temperature": 3})
        refused = ""
    except litellm.BadRequestError as error:
        refused = f"{error.status_code} {error.message}"
    return {
        "answers": [summary(answer) for answer in (whole, built)],
        "num_chunks": len(chunks),
        "refused": refused,
    }


def summary(answer: Any) -> dict[str, Any]:
    """What must be the same, streamed or not."""
    choice = answer.choices[0]
    return {
        "text": choice.message.content,
        "finish_reason": choice.finish_reason,
        "prompt_tokens": answer.usage.prompt_tokens,
        "completion_tokens": answer.usage.completion_tokens,
    }


def main(base_url: str, model: str) -> None:
    """Print what was answered."""
    prefixes = ("openai", "hosted_vllm")
    sys.stdout.write(
        "\n" + json.dumps({prefix: ask(prefix, base_url, model) for prefix in prefixes})
    )


main(*sys.argv[1:])
