"""What is asked: the body of every request of a run, fixed by its options and the seed."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

TOPICS = ("tides", "bridges", "bees", "glaciers", "sailing", "bread", "clocks", "owls", "maps",
          "volcanoes", "chess", "rivers", "silk", "comets", "lighthouses", "horses")  # fmt: skip


class Ask(NamedTuple):
    """One request to send."""

    path: str
    body: bytes
    """JSON."""
    expected_output_tokens: int | None = None
    """How many tokens must come, where the request says so itself."""


class WorkloadError(ValueError):
    """The prompts file cannot be used; the text says where and why."""


def random_token_prompts(
    model: str,
    number: int,
    *,
    input_tokens: int,
    output_tokens: int,
    prefix_share: float,
    vocabulary_size: int,
    seed: int,
) -> list[Ask]:
    """Completions of random token ids, each of exact length, its end-of-text token ignored.

    The first `prefix_share` of every prompt is the same, for servers with a prefix cache.
    """
    generator = random.Random(f"prompts {seed}")
    prefix = generator.choices(range(vocabulary_size), k=round(input_tokens * prefix_share))
    asks = []
    for _ in range(number):
        rest = generator.choices(range(vocabulary_size), k=input_tokens - len(prefix))
        asks.append(token_completion(model, prefix + rest, output_tokens))
    return asks


def token_completion(model: str, prompt: Sequence[int], output_tokens: int) -> Ask:
    """The completion of these tokens by exactly so many."""
    fields = {"prompt": prompt, "max_tokens": output_tokens, "ignore_eos": True}
    return _ask(model, fields, expected_output_tokens=output_tokens)


def chat_questions(model: str, number: int, *, output_tokens: int, seed: int) -> list[Ask]:
    """Short chats about two topics each, which end where the model ends them."""
    generator = random.Random(f"questions {seed}")
    asks = []
    for index in range(number):
        first, second = generator.sample(TOPICS, 2)
        question = f"Question {index + 1}: what do {first} and {second} have in common?"
        asks.append(_ask(model, {"messages": _chat(question), "max_tokens": output_tokens}))
    return asks


def prompts_from_file(
    model: str, number: int, path: Path, *, as_chat: bool, output_tokens: int
) -> list[Ask]:
    """The prompts of a file in turn, over again until there are `number` of them.

    A line is the text of a prompt, or a JSON object with `prompt` or `messages` and any further
    fields of the API. Raises WorkloadError if the file cannot be read or holds no prompt.
    """
    try:
        lines = [line for line in path.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"{path}: {error}") from error
    if not lines:
        raise WorkloadError(f"{path}: there is no prompt in it")
    fields = [_line_fields(line, f"{path}:{row}", as_chat) for row, line in enumerate(lines, 1)]
    return [
        _ask(model, {"max_tokens": output_tokens, **fields[index % len(fields)]})
        for index in range(number)
    ]


def _line_fields(line: str, place: str, as_chat: bool) -> dict[str, Any]:
    if not line.lstrip().startswith("{"):
        return {"messages": _chat(line)} if as_chat else {"prompt": line}
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise WorkloadError(f"{place}: {error}") from error
    if ("prompt" in fields) == ("messages" in fields):
        raise WorkloadError(f"{place}: needs either `prompt` or `messages`")
    if as_chat and isinstance(fields.get("prompt"), str):
        fields["messages"] = _chat(fields.pop("prompt"))
    return fields


def _chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def _ask(model: str, fields: dict[str, Any], expected_output_tokens: int | None = None) -> Ask:
    body = {
        "temperature": 0.0,
        **fields,
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }
    path = "/v1/chat/completions" if "messages" in fields else "/v1/completions"
    return Ask(path, msgspec.json.encode(body), expected_output_tokens)
