"""How deep the JSON is that clients get back."""

from cluster.errors import InvalidRequest

MAX_LEVELS = 100
"""As of schemas for answers. The encoder has a limit too, which depends on who calls it."""


def check_nesting(value: object, path: str) -> None:
    """Raises InvalidRequest if the JSON value at `path` has too many levels."""
    level, num_levels = [value], 0
    while level := [inner for outer in level for inner in _inside(outer)]:
        num_levels += 1
        if num_levels > MAX_LEVELS:
            raise InvalidRequest(f"{path} is nested deeper than {MAX_LEVELS} levels", path)


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
