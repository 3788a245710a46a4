"""Errors of a chat body in the words of the Responses API."""

import re
from typing import TypeVar

from cluster.errors import ContextLengthExceeded, RequestError

Refusal = TypeVar("Refusal", bound=RequestError)

_NAMES = [
    (re.compile(r"^messages\b"), "input"),
    (re.compile(r"\bmax_(completion_)?tokens\b"), "max_output_tokens"),
    (re.compile(r"\bresponse_format\.json_schema\b"), "text.format"),
    (re.compile(r"\bresponse_format\b"), "text.format"),
    (re.compile(r"^tools\[(\d+)\]\.function\b"), r"tools[\1]"),
    (re.compile(r"\btool_choice\.allowed_tools\b"), "tool_choice"),
]


def renamed(error: Refusal) -> Refusal:
    """The same error, naming the fields that this API's clients have sent."""
    message = _renamed(error.message)
    if isinstance(error, ContextLengthExceeded):
        message = message.replace("messages", "input")
    return type(error)(message, None if error.param is None else _renamed(error.param))


def _renamed(words: str) -> str:
    for pattern, name in _NAMES:
        words = pattern.sub(name, words)
    return words
