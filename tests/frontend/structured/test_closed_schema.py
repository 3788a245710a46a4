"""Objects whose properties are listed hold no others."""

from typing import Any

import pytest

from frontend.structured.closed_schema import with_closed_objects

NAME = {"type": "object", "properties": {"name": {"type": "string"}}}
CLOSED_NAME = NAME | {"additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        (NAME, CLOSED_NAME),
        ({"type": "array", "items": NAME}, {"type": "array", "items": CLOSED_NAME}),
        ({"anyOf": [NAME, {"type": "null"}]}, {"anyOf": [CLOSED_NAME, {"type": "null"}]}),
        (
            {"$ref": "#/$defs/name", "$defs": {"name": NAME}},
            {"$ref": "#/$defs/name", "$defs": {"name": CLOSED_NAME}},
        ),
        (
            {"properties": {"of": NAME}, "required": ["of"]},
            {"properties": {"of": CLOSED_NAME}, "required": ["of"], "additionalProperties": False},
        ),
        ({"properties": {}}, {"properties": {}, "additionalProperties": False}),
    ],
)
def test_objects_are_closed_wherever_they_are(
    schema: dict[str, Any], closed: dict[str, Any]
) -> None:
    assert with_closed_objects(schema) == closed


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        NAME | {"additionalProperties": True},
        NAME | {"additionalProperties": {"type": "integer"}},
        NAME | {"patternProperties": {"^x": {}}},
        NAME | {"required": ["name", "other"]},
        NAME | {"minProperties": 3},
        {"allOf": [NAME, {"properties": {"age": {"type": "integer"}}}]},
        {"$defs": {"name": NAME}, "properties": {"a": {"allOf": [{"$ref": "#/$defs/name"}]}}},
        {"const": {"properties": {"name": 1}}},
        NAME | {"properties": {"not": {"type": "string"}}},
    ],
)
def test_what_speaks_of_other_properties_is_left_as_it_is(schema: dict[str, Any]) -> None:
    assert with_closed_objects(schema) == schema


def test_the_given_schema_is_not_changed() -> None:
    schema = {"items": {"properties": {"name": {"type": "string"}}}}
    with_closed_objects(schema)
    assert schema == {"items": {"properties": {"name": {"type": "string"}}}}
