"""instructor: an answer of a class, by a call of a tool and by a schema."""

import json
import sys

import instructor
from openai import OpenAI
from pydantic import BaseModel


class City(BaseModel):
    """A city."""

    name: str
    is_capital: bool


def main(base_url: str, model: str) -> None:
    """Print what was answered."""
    answers = {}
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        client = instructor.from_openai(
            OpenAI(base_url=base_url, api_key="none", max_retries=0), mode=mode
        )
        city = client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": "Which city is the capital of France?"}],
            response_model=City,
            temperature=0,
            max_tokens=200,
            max_retries=0,
        )
        answers[mode.name] = city.model_dump()
    sys.stdout.write(json.dumps(answers))


main(*sys.argv[1:])
