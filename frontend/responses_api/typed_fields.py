"""Parts of a body that are read by their type."""

from collections.abc import Mapping
from typing import Any, TypeVar

from cluster.errors import InvalidRequest
from frontend.openai.decoding import convert_body
from frontend.responses_api.nesting import check_nesting

Part = TypeVar("Part")


def convert_part(fields: dict[str, Any], part_type: type[Part], path: str) -> Part:
    """The part of a body that lies at `path`. Raises InvalidRequest naming the field in it."""
    check_nesting(fields, path)
    try:
        return convert_body(fields, part_type)
    except InvalidRequest as error:
        raise InvalidRequest(f"{path}.{error.message}", f"{path}.{error.param}") from error


def checked_type(fields: Mapping[str, Any], known: Mapping[str, object], path: str) -> str:
    """The `type` of the part at `path`. Raises InvalidRequest if it is not among those known."""
    kind = fields.get("type")
    if isinstance(kind, str) and kind in known:
        return kind
    param = f"{path}.type"
    if kind is None:
        raise InvalidRequest(f"{param} is required", param)
    raise InvalidRequest(
        f"{param}: {kind!r} is not supported by this server, only {', '.join(known)}", param
    )
