"""Grammars in the library's own form: of JSON schemas, regular expressions, choices and EBNF."""

from collections.abc import Sequence
from typing import Any

import msgspec
from llguidance import LLMatcher, grammar_from

from cluster.errors import InvalidRequest
from frontend.structured.closed_schema import with_closed_objects
from frontend.structured.grammar_check import MAX_GRAMMAR_CHARACTERS, grammar_fault
from frontend.structured.schema_check import schema_fault

MAX_CHOICES = 1_000
_BETWEEN_JSON_TOKENS = r" ?(\n {0,16})?"
"""Compact, spaced or indented, and never a blank page: small models like to write spaces for ever."""


def json_schema_grammar(schema: dict[str, Any], param: str = "response_format") -> str:
    """The grammar of JSON texts that are valid by `schema`, properties in the schema's order.

    Where it lists the properties of an object and does not speak of others, there are no others.
    Raises InvalidRequest naming `param` if the schema is malformed, asks for what cannot be
    enforced, or is over a limit. Heavy: run it in worker threads.
    """
    if fault := schema_fault(schema):
        raise _cannot_be_used("the JSON schema", fault, param)
    text = msgspec.json.encode(with_closed_objects(schema)).decode()
    if len(text) > MAX_GRAMMAR_CHARACTERS:
        raise _too_long("the JSON schema", text, param)
    try:
        grammar = LLMatcher.grammar_from_json_schema(
            text,
            overrides={
                "whitespace_pattern": _BETWEEN_JSON_TOKENS,
                "lenient": False,
                "coerce_one_of": False,
            },
        )
    except ValueError as error:
        raise _cannot_be_used("the JSON schema", str(error), param) from error
    return _checked(grammar, "the JSON schema", param)


def json_object_grammar() -> str:
    """The grammar of any JSON object."""
    return json_schema_grammar({"type": "object"})


def regex_grammar(regex: str, param: str) -> str:
    """The grammar of the texts that the whole of `regex` matches, in the syntax of Rust's `regex`.

    Raises InvalidRequest naming `param` as `json_schema_grammar` does.
    """
    return _checked(LLMatcher.grammar_from_regex(regex), "the regular expression", param)


def choice_grammar(choices: Sequence[str], param: str) -> str:
    """The grammar of these texts and no others. Raises InvalidRequest naming `param`."""
    if not 1 <= len(choices) <= MAX_CHOICES:
        raise InvalidRequest(
            f"{param} must hold between 1 and {MAX_CHOICES} texts, not {len(choices)}", param
        )
    text = msgspec.json.encode(choices).decode()
    return _checked(grammar_from("choice", text), "the choice", param)


def ebnf_grammar(grammar: str, param: str) -> str:
    """The grammar in Lark's syntax or GBNF's, told apart by its `start` rule.

    Raises InvalidRequest naming `param` as `json_schema_grammar` does.
    """
    if len(grammar) > MAX_GRAMMAR_CHARACTERS:
        raise _too_long("the grammar", grammar, param)
    try:
        own_form = grammar_from("grammar", grammar)
    except (ValueError, RecursionError) as error:
        raise _cannot_be_used("the grammar", str(error), param) from error
    return _checked(own_form, "the grammar", param)


def _checked(grammar: str, what: str, param: str) -> str:
    if fault := grammar_fault(grammar):
        raise _cannot_be_used(what, fault, param)
    return grammar


def _too_long(what: str, text: str, param: str) -> InvalidRequest:
    fault = f"it has {len(text)} characters, the limit is {MAX_GRAMMAR_CHARACTERS}"
    return _cannot_be_used(what, fault, param)


def _cannot_be_used(what: str, fault: str, param: str) -> InvalidRequest:
    return InvalidRequest(f"{param}: {what} cannot be used: {fault}", param)
