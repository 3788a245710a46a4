"""What a body says of the form of its answer, as one grammar."""

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import msgspec

from cluster.errors import InvalidRequest
from frontend.openai.schemas import GenerationBody, ResponseFormat
from frontend.openai.shared_fields import StructuredOutputs
from frontend.structured.grammars import (
    choice_grammar,
    ebnf_grammar,
    json_object_grammar,
    json_schema_grammar,
    regex_grammar,
)
from frontend.tokenizer import Tokenizer

_KINDS: dict[str, Callable[[Any, str], str]] = {
    "json": lambda value, param: json_schema_grammar(_schema(value, param), param),
    "regex": regex_grammar,
    "choice": choice_grammar,
    "grammar": ebnf_grammar,
}
_NOT_SUPPORTED = (
    "structural_tag",
    "whitespace_pattern",
    "disable_any_whitespace",
    "disable_additional_properties",
)


class _Constraint(NamedTuple):
    """One thing that is said of the answer's form, and how to make a grammar of it."""

    param: str
    make: Callable[[], str]


def grammar_obstacle(tokenizer: Tokenizer, eos_token_ids: Collection[int]) -> str:
    """Why no answer of this model can be held to a grammar; empty if it can."""
    if tokenizer.bytes_of_tokens is None:
        return "the tokens of this model have no fixed spelling"
    return "" if eos_token_ids else "this model has no end-of-text token"


def answer_grammar(body: GenerationBody, obstacle: str = "") -> str:
    """The grammar that the answers to `body` must follow; empty if it asks for none.

    Raises InvalidRequest, naming the field, for what is malformed, cannot be enforced, is over a
    limit, or is said in two ways; for all if there is an `obstacle`. Heavy: run it in worker threads.
    """
    constraints = list(_constraints(body))
    if not constraints:
        return ""
    first, others = constraints[0], constraints[1:]
    if others:
        raise InvalidRequest(
            f"{others[0].param} cannot be combined with {first.param}", others[0].param
        )
    if obstacle:
        raise InvalidRequest(f"{first.param} is not supported: {obstacle}", first.param)
    return first.make()


def _constraints(body: GenerationBody) -> Iterator[_Constraint]:
    if body.response_format is not None:
        yield from _of_response_format(body.response_format)
    if body.structured_outputs is not None:
        yield from _of_structured_outputs(body.structured_outputs)
    for kind in _KINDS:
        yield from _of_kind(kind, getattr(body, f"guided_{kind}"), f"guided_{kind}")


def _of_response_format(wanted: ResponseFormat) -> Iterator[_Constraint]:
    match wanted.type:
        case "text":
            return
        case "json_object":
            yield _Constraint("response_format", json_object_grammar)
        case "json_schema":
            yield _Constraint("response_format", lambda: _of_json_schema(wanted))


def _of_json_schema(wanted: ResponseFormat) -> str:
    if wanted.json_schema is None:
        words = "; the schema belongs inside of it" if wanted.schema is not None else ""
        param = "response_format.json_schema"
        raise InvalidRequest(f"{param} is required with type json_schema{words}", param)
    param = "response_format.json_schema.schema"
    if wanted.json_schema.schema is None:
        raise InvalidRequest(f"{param} is required", param)
    return json_schema_grammar(wanted.json_schema.schema, param)


def _of_structured_outputs(wanted: StructuredOutputs) -> Iterator[_Constraint]:
    for name in _NOT_SUPPORTED:
        if getattr(wanted, name):
            param = f"structured_outputs.{name}"
            raise InvalidRequest(f"{param} is not supported by this server", param)
    found = [
        constraint
        for kind in _KINDS
        for constraint in _of_kind(kind, getattr(wanted, kind), f"structured_outputs.{kind}")
    ]
    if wanted.json_object:
        found.append(_Constraint("structured_outputs.json_object", json_object_grammar))
    if not found:
        raise InvalidRequest(
            "structured_outputs must have one of json, regex, choice, grammar and json_object",
            "structured_outputs",
        )
    yield from found


def _of_kind(kind: str, value: Any, param: str) -> Iterator[_Constraint]:
    if value is not None:
        yield _Constraint(param, lambda: _KINDS[kind](value, param))


def _schema(value: str | dict[str, Any], param: str) -> dict[str, Any]:
    """The schema, which vLLM takes as a text too."""
    if isinstance(value, dict):
        return value
    try:
        return msgspec.json.decode(value.encode(), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"{param} is not a JSON object: {error}", param) from error
