"""Answers that must be calls: the schema that holds them to it, and the parser that reads them."""

from typing import Any

from cluster.errors import InvalidRequest
from frontend.openai.schemas import FunctionDefinition
from frontend.tools.arguments_parser import ArgumentsParser
from frontend.tools.tool_formats import TOOL_FORMATS
from frontend.tools.tool_parser import ToolParser
from frontend.tools.tool_use import ToolUse

NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
DEFINITION_MEMBERS = ("$defs", "definitions")


def forced_calls_schema(use: ToolUse) -> dict[str, Any] | None:
    """The JSON schema of the whole answer; None if it may be any text.

    Of a named function it is that of its arguments; else, as in vLLM, a list of names with parameters.
    Raises InvalidRequest if two functions define one name differently.
    """
    if use.choice == "named":
        return next(_parameters(f) for f in use.functions if f.name == use.named)
    if use.choice != "required":
        return None
    schema: dict[str, Any] = {
        "type": "array",
        "minItems": 1,
        "items": {"anyOf": [_call_schema(function) for function in use.functions]},
    }
    if not use.takes_several:
        schema["maxItems"] = 1
    return schema | _definitions(use)


def forced_calls_parser(use: ToolUse) -> ToolParser:
    """The parser of such an answer."""
    if use.choice == "named":
        return ArgumentsParser(use.named)
    return TOOL_FORMATS["json"].new_parser()


def _call_schema(function: FunctionDefinition) -> dict[str, Any]:
    parameters = {
        name: value
        for name, value in _parameters(function).items()
        if name not in DEFINITION_MEMBERS
    }
    return {
        "type": "object",
        "properties": {"name": {"const": function.name}, "parameters": parameters},
        "required": ["name", "parameters"],
        "additionalProperties": False,
    }


def _parameters(function: FunctionDefinition) -> dict[str, Any]:
    return {"type": "object"} | (function.parameters or NO_PARAMETERS)


def _definitions(use: ToolUse) -> dict[str, Any]:
    """What `$ref`s name, moved to the top of the schema, since they are read from there."""
    found: dict[str, dict[str, Any]] = {}
    for function in use.functions:
        for member in DEFINITION_MEMBERS:
            for name, definition in (_parameters(function).get(member) or {}).items():
                if found.setdefault(member, {}).setdefault(name, definition) != definition:
                    raise InvalidRequest(
                        f"{use.param}: two functions define {name!r} differently", use.param
                    )
    return dict(found)
