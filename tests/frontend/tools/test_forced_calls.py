import json
from typing import Any

import pytest

from cluster.errors import InvalidRequest
from frontend.openai.schemas import FunctionDefinition
from frontend.structured.grammars import json_schema_grammar
from frontend.tools.forced_calls import forced_calls_parser, forced_calls_schema
from frontend.tools.tool_use import ToolUse
from tests.frontend.tools.cutting import calls_of, parse

CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = FunctionDefinition(name="weather", parameters=CITY)
NOW = FunctionDefinition(name="now")
BOTH = (WEATHER, NOW)


def with_definition(name: str, definition: dict[str, Any]) -> FunctionDefinition:
    refers = {"x": {"$ref": "#/$defs/X"}}
    return FunctionDefinition(
        name=name,
        parameters={"type": "object", "properties": refers, "$defs": {"X": definition}},
    )


@pytest.mark.parametrize("choice", ["none", "auto"])
def test_what_may_be_any_text_has_no_schema(choice: Any) -> None:
    assert forced_calls_schema(ToolUse(BOTH, choice)) is None


def test_a_named_function_is_held_to_the_schema_of_its_arguments() -> None:
    assert forced_calls_schema(ToolUse(BOTH, "named", "weather")) == CITY
    empty = {"type": "object", "properties": {}}
    assert forced_calls_schema(ToolUse(BOTH, "named", "now")) == empty


def test_required_calls_are_a_list_of_names_with_their_own_parameters() -> None:
    schema = forced_calls_schema(ToolUse(BOTH, "required"))
    assert schema is not None
    assert (schema["type"], schema["minItems"]) == ("array", 1)
    assert "maxItems" not in schema
    first, second = schema["items"]["anyOf"]
    assert first["properties"] == {"name": {"const": "weather"}, "parameters": CITY}
    assert second["properties"]["name"] == {"const": "now"}
    assert first["required"] == ["name", "parameters"]


def test_where_only_one_call_is_wanted_the_list_has_one() -> None:
    schema = forced_calls_schema(ToolUse(BOTH, "required", takes_several=False))
    assert schema is not None
    assert schema["maxItems"] == 1


def test_definitions_move_to_where_references_look_for_them() -> None:
    text = {"type": "string"}
    functions = (with_definition("f", text), with_definition("g", text))
    schema = forced_calls_schema(ToolUse(functions, "required"))
    assert schema is not None
    assert schema["$defs"] == {"X": text}
    assert "$defs" not in schema["items"]["anyOf"][0]["properties"]["parameters"]


def test_definitions_that_contradict_each_other_are_refused() -> None:
    functions = (
        with_definition("f", {"type": "string"}),
        with_definition("g", {"type": "integer"}),
    )
    with pytest.raises(InvalidRequest, match="'X'") as caught:
        forced_calls_schema(ToolUse(functions, "required"))
    assert caught.value.param == "tools"


@pytest.mark.parametrize(
    "use",
    [ToolUse(BOTH, "required"), ToolUse(BOTH, "named", "weather"), ToolUse((NOW,), "required")],
)
def test_the_schemas_make_grammars(use: ToolUse) -> None:
    schema = forced_calls_schema(use)
    assert schema is not None
    assert json_schema_grammar(schema, "tools")


def test_answers_that_keep_to_it_are_read_as_calls() -> None:
    calls = [{"name": "weather", "parameters": {"city": "Ulm"}}, {"name": "now", "parameters": {}}]
    pieces = parse(forced_calls_parser(ToolUse(BOTH, "required")), json.dumps(calls))
    assert calls_of(pieces) == [("weather", '{"city": "Ulm"}'), ("now", "{}")]
    named = forced_calls_parser(ToolUse(BOTH, "named", "weather"))
    assert calls_of(parse(named, '{"city": "Ulm"}')) == [("weather", '{"city": "Ulm"}')]
