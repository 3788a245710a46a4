"""The OpenAPI document, made from the table of operations and the structs that travel."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from frontend.openai.shared_fields import SharedFields
from frontend.openapi.components import Schema, schemas_of
from frontend.openapi.operation import EVENTS, JSON, Operation, Parameter

SECURITY: dict[str, list[dict[str, list[str]]]] = {
    "nothing": [],
    "key": [{"API_key": []}],
    "admin key": [{"admin_key": []}],
}
SECURITY_SCHEMES = {
    "API_key": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, if the server was launched with some.",
    },
    "admin_key": {"type": "http", "scheme": "bearer", "description": "An admin key."},
}
HEADLINE = """\
A serving cluster for one language model, with the APIs that its clients know. Errors are a 4xx with an \
object that names the field. `X-Request-Id` is echoed. Fields that are not here are ignored."""


def openapi_document(
    operations: Sequence[Operation], version: str, limits_of_lists: Mapping[str, int]
) -> dict[str, Any]:
    """The document of these operations; the limits are those that are settings, by the field."""
    types = [kind for operation in operations for kind in _types(operation)]
    schemas, components = schemas_of(types)
    known = list(zip(types, schemas, strict=True))
    for kind, schema in known:
        if isinstance(kind, type) and issubclass(kind, SharedFields):
            _limit_lists(components[schema["$ref"].rpartition("/")[2]], limits_of_lists)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        entry = _Entry(operation, known)
        paths.setdefault(operation.template, {})[operation.method.lower()] = entry.build()
    return {
        "openapi": "3.1.0",
        "info": {"title": "quadriga", "version": version, "description": HEADLINE},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": SECURITY_SCHEMES},
    }


def _limit_lists(component: Schema, limits: Mapping[str, int]) -> None:
    for field in component["properties"].keys() & limits.keys():
        schema = component["properties"][field]
        for form in schema.get("anyOf", [schema]):
            if form.get("type") == "array":
                form["maxItems"] = limits[field]


def _bodies(operation: Operation) -> tuple[Any, ...]:
    if operation.body is None:
        return ()
    return operation.body if isinstance(operation.body, tuple) else (operation.body,)


def _types(operation: Operation) -> list[Any]:
    streamed = [] if operation.events is None else [operation.events]
    given = [parameter.type for parameter in operation.parameters]
    return [*_bodies(operation), operation.answer, operation.error, *streamed, *given]


class _Entry:
    """Builds what the document says of one operation."""

    def __init__(self, operation: Operation, known: list[tuple[Any, Schema]]) -> None:
        self._operation = operation
        self._known = known

    def build(self) -> dict[str, Any]:
        operation = self._operation
        entry: dict[str, Any] = {
            "operationId": operation.route.__name__,
            "tags": [operation.group],
            "summary": operation.description.partition("\n")[0],
            "description": operation.description,
            "security": SECURITY[operation.needs],
            "responses": self._responses(),
        }
        if operation.parameters:
            entry["parameters"] = [self._parameter(given) for given in operation.parameters]
        if operation.body is not None:
            entry["requestBody"] = {"required": True, "content": {JSON: self._body()}}
        return entry

    def _schema(self, kind: Any) -> Schema:
        return next(schema for known, schema in self._known if known == kind)

    def _body(self) -> dict[str, Any]:
        forms = [self._schema(kind) for kind in _bodies(self._operation)]
        content: dict[str, Any] = {"schema": forms[0] if len(forms) == 1 else {"anyOf": forms}}
        if self._operation.example is not None:
            content["example"] = self._operation.example
        return content

    def _parameter(self, given: Parameter) -> dict[str, Any]:
        return {
            "name": given.name,
            "in": given.place,
            "required": given.place == "path",
            "description": given.description,
            "schema": self._schema(given.type),
        }

    def _responses(self) -> dict[str, Any]:
        operation = self._operation
        answer = {operation.media_type: {"schema": self._schema(operation.answer)}}
        if operation.events is not None:
            answer[EVENTS] = {"schema": self._events()}
        error = {JSON: {"schema": self._schema(operation.error)}}
        contents = dict.fromkeys(operation.all_errors, error)
        contents |= dict.fromkeys(operation.statuses, answer)
        return {
            str(status): {"description": HTTPStatus(status).phrase, "content": content}
            for status, content in sorted(contents.items())
        }

    def _events(self) -> Schema:
        """A stream is text to OpenAPI; what its events hold is told beside."""
        return {
            "type": "string",
            "description": "With `stream`: server-sent events, whose data is as below.",
            "x-event": self._schema(self._operation.events),
        }
