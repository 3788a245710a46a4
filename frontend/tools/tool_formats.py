"""The ways in which models write calls, by the names that vLLM has for them."""

import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass

from frontend.tools.call_parser import CallParser, CallSyntax
from frontend.tools.call_reader import CallReader
from frontend.tools.json_call import JsonCall
from frontend.tools.named_call import NamedCall
from frontend.tools.python_call import PythonCall

NUM_MISTRAL_ID_CHARACTERS = 9


def openai_call_id() -> str:
    """A fresh id of a call."""
    return f"call_{secrets.token_hex(12)}"


def mistral_call_id() -> str:
    """A fresh id as Mistral's templates ask for: nine letters and digits, or they refuse the turn."""
    alphabet = string.ascii_letters + string.digits
    return "".join(secrets.choice(alphabet) for _ in range(NUM_MISTRAL_ID_CHARACTERS))


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """One way to write calls."""

    syntax: CallSyntax
    new_call_id: Callable[[], str] = openai_call_id

    @property
    def markers(self) -> tuple[str, ...]:
        """What must be seen in the text, even where these are special tokens."""
        return tuple(filter(None, (self.syntax.opening, self.syntax.closing)))

    def new_parser(self) -> CallParser:
        """A parser for one choice."""
        return CallParser(self.syntax)


def _json_reader(char: str, _: bool) -> CallReader | None:
    return JsonCall() if char == "{" else None


def _mistral_reader(char: str, is_in_list: bool) -> CallReader | None:
    if not is_in_list and (char.isalnum() or char == "_"):
        return NamedCall()
    return _json_reader(char, is_in_list)


def _python_reader(char: str, is_in_list: bool) -> CallReader | None:
    return PythonCall() if is_in_list and (char.isalpha() or char == "_") else None


TOOL_FORMATS: dict[str, ToolFormat] = {
    "hermes": ToolFormat(
        CallSyntax(_json_reader, opening="<tool_call>", closing="</tool_call>"),
    ),
    "llama3_json": ToolFormat(
        CallSyntax(_json_reader, opening="<|python_tag|>", separator=";", is_bare=True),
    ),
    "mistral": ToolFormat(
        CallSyntax(_mistral_reader, opening="[TOOL_CALLS]", takes_lists=True),
        mistral_call_id,
    ),
    "pythonic": ToolFormat(CallSyntax(_python_reader, takes_lists=True, is_bare=True)),
    "json": ToolFormat(CallSyntax(_json_reader, takes_lists=True, is_bare=True)),
}

_SIGNS = (
    ("[TOOL_CALLS]", "mistral"),
    ("<tool_call>", "hermes"),
    ("<|python_tag|>", "llama3_json"),
    ('"parameters": dictionary of argument name', "llama3_json"),
    ("func_name1(params_name1=", "pythonic"),
)
"""What a template tells models about calls, or writes itself; the first that is found counts."""


def pick_tool_format(name: str, template_source: str | None) -> ToolFormat:
    """The format of that name; for `auto` the one whose marks are in the chat template."""
    if name != "auto":
        return TOOL_FORMATS[name]
    source = template_source or ""
    found = next((format_name for sign, format_name in _SIGNS if sign in source), "json")
    return TOOL_FORMATS[found]
