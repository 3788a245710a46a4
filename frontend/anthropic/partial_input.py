"""A call's arguments as an object, as far as they came."""

from typing import Any

from cluster.errors import InvalidRequest
from frontend.openai.decoding import decode_body

_CLOSING = {"{": "}", "[": "]"}


def call_input(arguments: str) -> dict[str, Any]:
    """The object in the JSON text; of one that was cut off, the members that are whole.

    Empty where nothing can be read.
    """
    for candidate in (arguments, *_closed(arguments)):
        try:
            return decode_body(candidate.encode(), dict[str, Any])
        except InvalidRequest:
            continue
    return {}


def _closed(text: str) -> list[str]:
    """The text with its open brackets closed: at its end, and behind the last value that is certain."""
    open_brackets: list[str] = []
    certain_end = 0
    is_string = is_escaped = False
    for position, char in enumerate(text):
        if is_string:
            is_string = is_escaped or char != '"'
            is_escaped = char == "\\" and not is_escaped
        elif char == '"':
            is_string = True
        elif char == ",":
            certain_end = position
        elif char in _CLOSING:
            open_brackets.append(char)
            certain_end = position + 1
        elif char in _CLOSING.values() and open_brackets:
            open_brackets.pop()
            certain_end = position + 1
    # Every bracket moves `certain_end`, so both ends are inside the same ones.
    closers = "".join(_CLOSING[bracket] for bracket in reversed(open_brackets))
    ends = [certain_end] if is_string else [len(text), certain_end]
    return [text[:end] + closers for end in ends]
