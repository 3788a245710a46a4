"""The bodies of the background load: one of each kind that the API knows, many of each.

Each is deterministic, greedy or with a seed, so that there is one right answer to compare with.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from loadtests.workload import TOPICS

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"


class Body(NamedTuple):
    """One request of the load."""

    kind: str
    path: str
    fields: dict[str, Any]

    @property
    def needs_stop_string(self) -> bool:
        """Whether it is to end at a string that must be found in its own answer first."""
        return self.kind == "stop-string" and "stop" not in self.fields


_KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 0.9, "top_p": 0.95},
    "chat": {"temperature": 0.7},
    "n-2": {"temperature": 0.8, "n": 2},
    "prompts": {"temperature": 0.0},
    "stop-string": {"temperature": 0.0},
    "logprobs": {"temperature": 0.0, "logprobs": 2},
    "penalties": {
        "temperature": 0.6,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.4,
        "repetition_penalty": 1.1,
    },
    "min-tokens": {"temperature": 0.5, "ignore_eos": False},
    "echo": {"temperature": 0.0, "echo": True},
    "whole": {"temperature": 0.4, "stream": False},
}
KINDS = tuple(_KINDS)
VARIANTS = 3
"""Different prompts of each kind."""


def make_bodies(
    kinds: Sequence[str] | None = None, output_tokens: int = 64, variants: int = VARIANTS
) -> list[Body]:
    """Bodies of these kinds in turn; by default of all. Raises ValueError for an unknown kind."""
    chosen = KINDS if kinds is None else tuple(kinds)
    if unknown := set(chosen) - set(KINDS):
        raise ValueError(f"kinds of requests are {', '.join(KINDS)}; not {', '.join(unknown)}")
    return [_body(kind, variant, output_tokens) for variant in range(variants) for kind in chosen]


def _body(kind: str, variant: int, output_tokens: int) -> Body:
    fields: dict[str, Any] = {
        "max_tokens": output_tokens,
        "ignore_eos": True,
        "seed": 100 * variant + KINDS.index(kind),
        "stream": True,
        "return_token_ids": True,
        **_KINDS[kind],
    }
    if fields["stream"]:
        fields["stream_options"] = {"include_usage": True}
    if kind == "min-tokens":
        fields["min_tokens"] = output_tokens // 2
    question = _question(kind, variant)
    match kind:
        case "chat":
            return Body(kind, CHAT, {"messages": [{"role": "user", "content": question}], **fields})
        case "prompts":
            prompts = [question, f"{question} Answer in one word."]
            return Body(kind, COMPLETIONS, {"prompt": prompts, **fields})
        case _:
            return Body(kind, COMPLETIONS, {"prompt": question, **fields})


def _question(kind: str, variant: int) -> str:
    number = variant * len(KINDS) + KINDS.index(kind)
    first = TOPICS[number % len(TOPICS)]
    second = TOPICS[(number * 7 + 3) % len(TOPICS)]
    more = " Give examples from several countries and times." * (number % 4)
    return f"Question {number}: what do {first} and {second} have in common?{more}"


def choose_stop_string(text: str) -> str | None:
    """A string that the text has, but not before its second quarter; None if there is no such one."""
    for length in (3, 4, 6, 2, 8):
        for start in range(len(text) // 2, len(text) - length):
            found = text[start : start + length]
            is_plain = "\ufffd" not in found and found.strip() == found
            if is_plain and text.find(found) >= len(text) // 4:
                return found
    return None
