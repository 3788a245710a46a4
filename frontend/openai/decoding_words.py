"""What msgspec says of a field, as we say it: with the field first, and its limit in words."""

import functools
import re
from collections.abc import Iterator

from msgspec import inspect

from frontend.openai.limits import PATTERN_WORDS

_LIMIT = re.compile(
    r"^Expected `(?P<type>\w+)`(?P<is_length> of length)? (?P<sign>[<>]=?) (?P<limit>\S+)$"
)
_PATTERN = re.compile(r"^Expected `str` matching regex (?P<pattern>'.*')$")
_ENUM = re.compile(r"^Invalid enum value (?P<value>.*)$")
_SIGNS = {"<=": "at most", ">=": "at least", "<": "below", ">": "above"}
_SAID_OF_PATTERNS = {repr(pattern): words for pattern, words in PATTERN_WORDS.items()}
_UNITS = {"str": "characters", "array": "items", "object": "entries"}


def words_of(words: str, path: str, body_type: object) -> str:
    """The same, naming the field at `path` of the body and what it may be."""
    if not path:
        return f"the body: {_uncapitalized(words)}"
    if found := _LIMIT.match(words):
        return f"{path} {_limit(found)}"
    if found := _PATTERN.match(words):
        pattern = found["pattern"]
        return f"{path} {_SAID_OF_PATTERNS.get(pattern, f'must match {pattern}')}"
    if found := _ENUM.match(words):
        allowed = ", ".join(allowed_values(body_type, path))
        return f"{path} must be one of {allowed}, not {found['value']}"
    return f"{path}: {_uncapitalized(words)}"


def is_limit(words: str) -> bool:
    """Whether a value has the right type, and is too small or large."""
    return _LIMIT.match(words) is not None


def _limit(found: re.Match[str]) -> str:
    limit = found["limit"].removesuffix(".0")
    if not found["is_length"]:
        return f"must be {_SIGNS[found['sign']]} {limit}"
    if (found["sign"], limit) == (">=", "1"):
        return "must not be empty"
    return f"must have {_SIGNS[found['sign']]} {limit} {_UNITS[found['type']]}"


def _uncapitalized(words: str) -> str:
    return words[:1].lower() + words[1:]


@functools.lru_cache(maxsize=256)
def allowed_values(body_type: object, path: str) -> tuple[str, ...]:
    """The values that a field of few values may have."""
    types = [inspect.type_info(body_type)]
    for name in re.sub(r"\[[^\]]*\]", ".", path).split("."):
        types = [inner for outer in types for inner in _inside(outer, name)]
    literals = [t for outer in types for t in _alternatives(outer)]
    return tuple(str(v) for t in literals if isinstance(t, inspect.LiteralType) for v in t.values)


def _alternatives(outer: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(outer, inspect.UnionType):
        yield from outer.types
    elif isinstance(outer, inspect.Metadata):
        yield from _alternatives(outer.type)
    else:
        yield outer


def _inside(outer: inspect.Type, name: str) -> Iterator[inspect.Type]:
    """The types of the field of this name; an empty name is an item."""
    for kind in _alternatives(outer):
        if isinstance(kind, inspect.StructType):
            yield from (f.type for f in kind.fields if f.encode_name == name)
        elif isinstance(kind, inspect.ListType) and not name:
            yield kind.item_type
