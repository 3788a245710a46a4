"""JSON bodies to structs, with errors that name the field."""

import json
import re
from typing import Any, TypeVar

import msgspec

from cluster.errors import InvalidRequest
from frontend.openai.decoding_words import is_limit, words_of

Body = TypeVar("Body")

_MAYBE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_PATH = re.compile(r" - at `(?P<key>(?:key[^`]*` in `)+)?\$\.?(?P<path>[^`]*)`$")
"""Of a key of a JSON object msgspec says: at `key` in `$.path.to.the.object`."""
_ITEMS = re.compile(r"(\[[^\]]*\])+$")
_MISSING = re.compile(r"^Object missing required field `(?P<field>[^`]*)`$")


def decode_body(data: bytes | bytearray, body_type: type[Body]) -> Body:
    """The body in `data`; lone surrogates become U+FFFD. Raises InvalidRequest naming the field."""
    try:
        return _decode(data, body_type)
    except msgspec.ValidationError as error:
        raise _wrong_field(str(error), body_type) from error
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}") from error
    except RecursionError as error:
        raise InvalidRequest("the body is nested too deeply") from error


def convert_body(fields: object, body_type: type[Body]) -> Body:
    """The body that decoded JSON fields make up, or those attributes of an object that it knows.

    Raises InvalidRequest naming the field.
    """
    try:
        return msgspec.convert(fields, body_type, from_attributes=True)
    except msgspec.ValidationError as error:
        raise _wrong_field(str(error), body_type) from error


def _decode(data: bytes | bytearray, body_type: type[Body]) -> Body:
    try:
        return msgspec.json.decode(data, type=body_type)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if not _MAYBE_SURROGATE.search(data):
            raise
        return msgspec.json.decode(_without_lone_surrogates(data), type=body_type)


def _without_lone_surrogates(data: bytes | bytearray) -> bytes:
    """The same JSON, with each `\\ud83d` that is half a character replaced.

    msgspec refuses such escapes; the standard library takes them and joins the pairs.
    """
    try:
        text = json.dumps(json.loads(data), ensure_ascii=False)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error
    return _LONE_SURROGATE.sub("\ufffd", text).encode()


def _wrong_field(words: str, body_type: type[Any]) -> InvalidRequest:
    """The error in our words; of an item out of its limits, `param` is the whole list's."""
    found = _PATH.search(words)
    path = found["path"].replace("[...]", "") if found else ""
    if found:
        words = words[: found.start()]
    if found and found["key"]:
        place = f"{path}: a key" if path else "a key"
        return InvalidRequest(words_of(words, place, body_type), path or None)
    missing = _MISSING.match(words)
    if missing:
        path = f"{path}.{missing['field']}" if path else missing["field"]
        return InvalidRequest(f"{path} is required", path)
    param = _ITEMS.sub("", path) if is_limit(words) else path
    return InvalidRequest(words_of(words, path, body_type), param or None)
