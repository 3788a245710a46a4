"""Markers in a text that arrives piece by piece."""

JSON_WHITESPACE = " \t\r\n"


def split_at_marker(text: str, marker: str) -> tuple[str, bool, str]:
    """What is certain to come before the marker, whether it was found, and what is left.

    Not found, what is left is the end of `text` that may be the marker's beginning.
    """
    before, found, after = text.partition(marker)
    if found:
        return before, True, after
    num_held = _num_held(text, marker)
    return text[: len(text) - num_held], False, text[len(text) - num_held :]


def split_whitespace(text: str) -> tuple[str, str]:
    """The whitespace that a text begins with, and the rest."""
    rest = text.lstrip(JSON_WHITESPACE)
    return text[: len(text) - len(rest)], rest


def _num_held(text: str, marker: str) -> int:
    for length in range(min(len(marker) - 1, len(text)), 0, -1):
        if marker.startswith(text[-length:]):
            return length
    return 0
