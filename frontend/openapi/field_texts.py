"""The texts below the fields of a struct, which Python does not keep."""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

Texts = dict[str, str]


def field_texts(struct: type[Any]) -> Texts:
    """What the source says below each field of the struct, its bases' included."""
    texts: Texts = {}
    for base in reversed(struct.__mro__):
        texts |= _texts_of_module(base.__module__).get(base.__name__, {})
    return texts


@cache
def _texts_of_module(name: str) -> dict[str, Texts]:
    """The texts of each class at the top of a module; none where there is no source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (OSError, TypeError):
        return {}
    return {
        node.name: dict(_texts_of_class(node))
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def _texts_of_class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(node.body, node.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)
            case _:
                pass
