"""Objects whose properties are listed hold no others, unless the schema says so."""

from typing import Any

_MEMBERS_OF_SCHEMAS = frozenset({"properties", "$defs", "definitions"})
"""What is below these are schemas by name."""
_LISTS_OF_SCHEMAS = frozenset({"anyOf", "oneOf", "prefixItems"})
_SCHEMAS = frozenset({"items", "additionalProperties"})
_SPEAK_OF_OTHERS = frozenset(
    {
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "anyOf",
        "oneOf",
    }
)
_COMBINE = frozenset(
    {"allOf", "not", "if", "dependentSchemas", "dependentRequired", "unevaluatedProperties"}
)
"""Where schemas hold of one value together, closing one of them may leave no value at all."""


def with_closed_objects(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with `additionalProperties: false` wherever it lists properties and says no more.

    By the letter such objects may have any other property too, and small models go on adding some until
    their tokens are used up. What the closed schema allows, the given one allows. A schema that combines
    others (`allOf`, `not`, `if` …) is left as it is.
    """
    return schema if _combines(schema) else _closed(schema)


def _closed(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    closed = {key: _closed_below(key, value) for key, value in node.items()}
    properties = node.get("properties")
    if (
        isinstance(properties, dict)
        and _SPEAK_OF_OTHERS.isdisjoint(node)
        and properties.keys() >= set(_names(node.get("required")))
    ):
        closed["additionalProperties"] = False
    return closed


def _closed_below(key: str, value: Any) -> Any:
    if key in _MEMBERS_OF_SCHEMAS and isinstance(value, dict):
        return {name: _closed(member) for name, member in value.items()}
    if key in _LISTS_OF_SCHEMAS and isinstance(value, list):
        return [_closed(member) for member in value]
    return _closed(value) if key in _SCHEMAS else value


def _names(required: Any) -> list[str]:
    return (
        [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    )


def _combines(node: Any) -> bool:
    """Whether any of the keywords is anywhere; as the name of a property it is one time too many."""
    if isinstance(node, dict):
        return not _COMBINE.isdisjoint(node) or any(_combines(value) for value in node.values())
    return isinstance(node, list) and any(_combines(value) for value in node)
