"""JSON schemas that could not be enforced, though the grammar library would take them."""

from typing import Any
from urllib.parse import unquote

MAX_SCHEMA_DEPTH = 100
"""Of the JSON that the schema is. The library reads 128 levels, its own around them counted."""
_KEYWORDS_OF_VALUES = frozenset({"const", "default", "enum", "examples"})
"""What is below these is data; a `$ref` in it refers to nothing."""


def schema_fault(schema: dict[str, Any]) -> str:
    """Why the schema cannot be used; empty if nothing of what is looked for here is wrong.

    Looked for are too many levels, and references that lead to themselves: no text would match.
    """
    pending: list[tuple[Any, int]] = [(schema, 1)]
    sound: set[str] = set()
    while pending:
        node, depth = pending.pop()
        if depth > MAX_SCHEMA_DEPTH:
            return f"it is nested deeper than {MAX_SCHEMA_DEPTH} levels"
        if isinstance(node, dict):
            if _is_circular(node, schema, sound):
                return f"$ref {node['$ref']!r} refers to itself"
            children = [value for key, value in node.items() if key not in _KEYWORDS_OF_VALUES]
        else:
            children = node
        pending += [(child, depth + 1) for child in children if isinstance(child, dict | list)]
    return ""


def _is_circular(node: dict[str, Any], root: dict[str, Any], sound: set[str]) -> bool:
    """Whether the references that begin at `node` come back to one that they have passed.

    `sound` are those that are known not to; if these do not either, they are added.
    """
    passed: set[str] = set()
    current: Any = node
    while isinstance(current, dict) and isinstance(reference := current.get("$ref"), str):
        if reference in passed:
            return True
        if reference in sound:
            break
        passed.add(reference)
        current = _referred_to(reference, root)
    sound |= passed
    return False


def _referred_to(reference: str, root: dict[str, Any]) -> Any:
    """What a reference of the form `#/a/b` points at; None for any other, and for nothing."""
    if not reference.startswith("#"):
        return None
    current: Any = root
    for part in reference[1:].split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        current = current.get(name) if isinstance(current, dict) else None
    return current
