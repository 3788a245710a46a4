"""The OpenAPI document as a page: one file, which fetches nothing."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from frontend.openapi.components import Schema
from frontend.openapi.operation import JSON
from frontend.openapi.schema_words import code, prose, schema_words, short_name


class Row(NamedTuple):
    """A field of a struct, or a parameter."""

    name: str
    is_required: bool
    type: Markup
    default: Markup | str
    description: str


class Answer(NamedTuple):
    """What comes with some statuses."""

    statuses: str
    content: Markup


class Entry(NamedTuple):
    """An operation."""

    name: str
    group: str
    method: str
    path: str
    summary: str
    description: str
    needs: str
    parameters: list[Row]
    bodies: list["Struct"]
    """One of them is sent."""
    answers: list[Answer]
    curl: str


class Struct(NamedTuple):
    """A type of the document."""

    name: str
    description: str
    fields: list[Row]


def page_of(document: dict[str, Any]) -> str:
    """The page, for browsers."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    environment.filters |= {"prose": prose, "short_name": short_name}
    groups: dict[str, list[Entry]] = {}
    for entry in _entries(document):
        groups.setdefault(entry.group, []).append(entry)
    structs = [_struct(*item) for item in document["components"]["schemas"].items()]
    page = environment.get_template("page.html")
    return page.render(document=document, groups=groups.items(), types=structs)


def _entries(document: dict[str, Any]) -> Iterator[Entry]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get(JSON)
            yield Entry(
                name=operation["operationId"],
                group=operation["tags"][0],
                method=method.upper(),
                path=path,
                summary=operation["summary"],
                description=operation["description"],
                needs=_needs(operation["security"]),
                parameters=[_parameter(given) for given in operation.get("parameters", [])],
                bodies=list(_bodies(content["schema"], document)) if content else [],
                answers=list(_answers(operation["responses"])),
                curl=_curl(method, path, operation["security"], content),
            )


def _needs(security: list[dict[str, Any]]) -> str:
    return " or ".join(f"an {name.replace('_', ' ')}" for need in security for name in need) or (
        "no key"
    )


def _bodies(schema: Schema, document: dict[str, Any]) -> Iterator[Struct]:
    for form in schema.get("anyOf", [schema]):
        name = form.get("$ref", "").rpartition("/")[2]
        if name:
            yield _struct(name, document["components"]["schemas"][name])


def _answers(responses: dict[str, Any]) -> Iterator[Answer]:
    """Statuses that come with the same are told together."""
    statuses: dict[Markup, list[str]] = {}
    for status, answer in responses.items():
        told = f"{status} {answer['description']}"
        statuses.setdefault(_content(answer), []).append(told)
    for content, told_of_all in statuses.items():
        yield Answer(", ".join(told_of_all), content)


def _content(answer: dict[str, Any]) -> Markup:
    contents = [
        Markup("{} <code>{}</code>").format(
            schema_words(content["schema"].get("x-event", content["schema"])), media_type
        )
        for media_type, content in answer["content"].items()
    ]
    return Markup(" or ").join(contents)


def _parameter(given: dict[str, Any]) -> Row:
    kind = Markup("{}, in the {}").format(schema_words(given["schema"]), given["in"])
    return Row(given["name"], given["required"], kind, "", given["description"])


def _struct(name: str, schema: Schema) -> Struct:
    required = schema.get("required", [])
    rows = [
        Row(
            field,
            field in required,
            schema_words(inner),
            code(inner["default"]) if "default" in inner else "",
            inner.get("description", ""),
        )
        for field, inner in schema.get("properties", {}).items()
    ]
    return Struct(name, schema.get("description", ""), rows)


def _curl(
    method: str, path: str, security: list[dict[str, Any]], content: dict[str, Any] | None
) -> str:
    """A command to try it with; `$URL` is where the server is, `$KEY` a key for it."""
    words = [f'curl "$URL{path}"'] if method == "get" else [f'curl -X POST "$URL{path}"']
    if security:
        words.append('-H "Authorization: Bearer $KEY"')
    if content is not None:
        words.append("-H 'Content-Type: application/json'")
        words.append(f"-d {shlex.quote(json.dumps(content.get('example', {})))}")
    return " \\\n  ".join(words)
