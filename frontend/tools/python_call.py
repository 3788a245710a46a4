"""A call written as Python: `f(a=1, b="x")`."""

import ast
import json
import re
import warnings

from frontend.tools.json_scanner import Progress

_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_PLAIN = re.compile(r"[^\"'\\()\[\]{}]*")
_JSON_WORDS = {"true": True, "false": False, "null": None}


class PythonCall:
    """Certain only when it is complete, so its arguments come in one piece."""

    def __init__(self) -> None:
        self.progress = Progress.MORE
        self.name: str | None = None
        self._source = ""
        self._closers: list[str] = []
        self._quote = ""
        self._is_escaped = False
        self._arguments = ""

    def read(self, text: str) -> int:
        """Read on; how many characters belong to the call."""
        position = 0
        while position < len(text) and self.progress is Progress.MORE:
            plain = _PLAIN.match(text, position)
            if plain is not None and plain.end() > position:
                self._is_escaped = False
                position = plain.end()
                continue
            self._take(text[position])
            position += 1
        self._source += text[:position]
        if self.progress is Progress.DONE:
            self._evaluate()
        return position

    def take_arguments(self) -> str:
        """All of them, once."""
        arguments, self._arguments = self._arguments, ""
        return arguments

    def _take(self, char: str) -> None:
        if self._quote:
            is_end = char == self._quote and not self._is_escaped
            self._is_escaped = char == "\\" and not self._is_escaped
            self._quote = "" if is_end else self._quote
        elif char in "\"'":
            self._quote = char
        elif char in _CLOSERS:
            self._closers.append(_CLOSERS[char])
        elif not self._closers or self._closers.pop() != char:
            self.progress = Progress.BROKEN
        elif not self._closers:
            self.progress = Progress.DONE

    def _evaluate(self) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about escapes that Python does not know
                call = ast.parse(self._source, mode="eval").body
            self.name, self._arguments = _read_call(call)
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            self.progress = Progress.BROKEN


def _read_call(node: ast.expr) -> tuple[str, str]:
    """The function's name and its arguments as JSON. Raises ValueError if it is no plain call."""
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("not a call with named arguments")
    if not isinstance(node.func, ast.Name | ast.Attribute):
        raise ValueError("not a function by its name")
    arguments = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ValueError("an argument without a name of its own")
        arguments[keyword.arg] = ast.literal_eval(_JsonWords().visit(keyword.value))
    text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    text.encode()  # fails for half a character, by its escape, which could not be sent on
    return ast.unparse(node.func), text


class _JsonWords(ast.NodeTransformer):
    """Models mix the languages up: `true` in a Python call is meant as True."""

    def visit_Name(self, node: ast.Name) -> ast.expr:  # ast calls it so
        if node.id in _JSON_WORDS:
            return ast.Constant(_JSON_WORDS[node.id])
        return node
