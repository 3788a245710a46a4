from typing import Any

import pytest

from cluster.errors import InvalidRequest
from frontend.openai.decoding import convert_body
from frontend.openai.schemas import ChatBody
from frontend.tools.tool_use import ToolUse, read_tool_use

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"name": "weather", "description": "Tells it.", "parameters": SCHEMA, "strict": True}
TOOL = {"type": "function", "function": WEATHER}
NAMED = {"type": "function", "function": {"name": "weather"}}


def read(**fields: Any) -> ToolUse:
    return read_tool_use(convert_body({"messages": [{"role": "user"}], **fields}, ChatBody))


def test_tools_are_the_models_choice_unless_said_otherwise() -> None:
    use = read(tools=[TOOL])
    assert use.choice == "auto"
    assert use.takes_several
    assert use == read(tools=[TOOL], tool_choice="auto", parallel_tool_calls=True)


@pytest.mark.parametrize("choice", ["none", "required"])
def test_a_choice_is_taken_as_it_is_given(choice: str) -> None:
    assert read(tools=[TOOL], tool_choice=choice).choice == choice


def test_one_function_can_be_asked_for() -> None:
    use = read(tools=[TOOL], tool_choice=NAMED, parallel_tool_calls=False)
    assert (use.choice, use.named, use.takes_several) == ("named", "weather", False)


@pytest.mark.parametrize("fields", [{}, {"tools": []}, {"tool_choice": "auto"}, {"functions": []}])
def test_without_tools_there_is_no_use_of_them(fields: dict[str, Any]) -> None:
    assert read(**fields) == ToolUse()


def test_functions_are_tools_by_their_older_name() -> None:
    use = read(functions=[WEATHER], function_call={"name": "weather"})
    assert (use.choice, use.named, use.takes_several) == ("named", "weather", False)
    assert use.is_legacy
    assert read(functions=[WEATHER]).choice == "auto"


def test_templates_get_what_the_client_said_and_nothing_in_place_of_the_rest() -> None:
    described = {name: value for name, value in WEATHER.items() if name != "strict"}
    assert read(tools=[TOOL, {"function": {"name": "now"}}]).for_template() == [
        {"type": "function", "function": described},
        {"type": "function", "function": {"name": "now"}},
    ]
    assert read().for_template() is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "custom", "function": WEATHER}]}, "tools[0].type"),
        ({"tools": [{"function": {"name": "no spaces"}}]}, "tools[0].function.name"),
        ({"tools": [{"function": {"name": "n" * 65}}]}, "tools[0].function.name"),
        ({"tools": [{"function": {"name": ""}}]}, "tools[0].function.name"),
        ({"tools": [TOOL, {"function": {"name": "f", "parameters": {"type": "array"}}}]},
         "tools[1].function.parameters"),
        ({"functions": [{"name": "f", "parameters": {"type": None}}]}, "functions[0].parameters"),
        ({"tools": [TOOL], "tool_choice": "maybe"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"function": {"name": "other"}}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": NAMED}, "tool_choice"),
        ({"functions": [WEATHER], "function_call": {"name": "other"}}, "function_call"),
        ({"function_call": {"name": "weather"}}, "function_call"),
        ({"tools": [TOOL], "functions": [WEATHER]}, "functions"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_the_name_of_its_field(
    fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(**fields)
    assert caught.value.param == param
