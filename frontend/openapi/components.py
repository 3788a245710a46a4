"""The schemas of all structs that travel, as OpenAPI has them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from frontend.openapi.field_texts import field_texts

REFERENCE = "#/components/schemas/{name}"
Schema = dict[str, Any]


def schemas_of(types: Iterable[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """The schema of each type, and those of the structs that they refer to, by name."""
    types = list(types)
    structs = _structs_in(msgspec.inspect.multi_type_info(types))
    schemas, components = msgspec.json.schema_components([*types, *structs], ref_template=REFERENCE)
    for struct, schema in zip(structs, schemas[len(types) :], strict=True):
        _explain(components[schema["$ref"].rpartition("/")[2]], field_texts(struct))
    return list(schemas[: len(types)]), components


def _structs_in(infos: Iterable[msgspec.inspect.Type]) -> list[type[Any]]:
    """All structs in these types, each once."""
    found: dict[type[Any], None] = {}
    left: list[Any] = list(infos)
    while left:
        node = left.pop()
        if isinstance(node, msgspec.inspect.StructType):
            if node.cls in found:
                continue
            found[node.cls] = None
        if isinstance(node, (msgspec.inspect.Type, msgspec.inspect.Field)):
            left += [getattr(node, name) for name in node.__struct_fields__]
        elif isinstance(node, tuple):
            left += node
    return list(found)


def _explain(component: Schema, texts: dict[str, str]) -> None:
    """Give the fields their texts, and leave out what says nothing: nulls, and fields of any kind."""
    properties = component.get("properties", {})
    for name, schema in list(properties.items()):
        if schema.get("default", 0) is None:
            del schema["default"]
        if not schema and name not in component["required"]:
            del properties[name]
        elif name in texts:
            schema["description"] = texts[name]
