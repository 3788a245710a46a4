"""JSON schemas in a few words, for people."""

import json
import re
from typing import Any

from markupsafe import Markup, escape

from frontend.openapi.components import Schema

_BOUNDS = (
    ("minimum", "at least"),
    ("exclusiveMinimum", "above"),
    ("maximum", "at most"),
    ("exclusiveMaximum", "below"),
)
_CODE = re.compile(r"`([^`]+)`")
_SIZES = (("Length", "characters"), ("Items", "items"), ("Properties", "entries"))


def schema_words(schema: Schema) -> Markup:
    """The type and its limits; structs are links to their own place on the page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return Markup('<a href="#type-{}">{}</a>').format(name, short_name(name))
    if "anyOf" in schema or "oneOf" in schema:
        forms = [schema_words(form) for form in schema.get("anyOf") or schema["oneOf"]]
        return Markup(" or ").join(forms)
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return Markup(", ").join(code(value) for value in values)
    kind = Markup(escape(schema.get("type", "anything")))
    inner = schema.get("items") or schema.get("additionalProperties")
    if isinstance(inner, dict):
        kind += Markup(" of ") + schema_words(inner)
    return Markup(", ").join([kind, *_limits(schema)])


def short_name(name: str) -> str:
    """The name of a struct without its module, which is there only where two have the same."""
    return name.rpartition(".")[2]


def code(value: Any) -> Markup:
    """A JSON value as it is written."""
    return Markup("<code>{}</code>").format(json.dumps(value, ensure_ascii=False))


def prose(text: str) -> Markup:
    """A text whose `code` is marked."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _limits(schema: Schema) -> list[Markup]:
    limits = [f"{words} {schema[key]:,}" for key, words in _BOUNDS if key in schema]
    for noun, unit in _SIZES:
        least, most = schema.get(f"min{noun}"), schema.get(f"max{noun}")
        limits += [] if least is None else [f"at least {least:,} {unit}"]
        limits += [] if most is None else [f"at most {most:,} {unit}"]
    if "pattern" in schema:
        limits.append(f"like {schema['pattern']}")
    return [escape(limit) for limit in limits]
