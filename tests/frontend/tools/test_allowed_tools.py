"""`tool_choice` that leaves the model some of the tools."""

from typing import Any

import pytest

from cluster.errors import InvalidRequest
from frontend.openai.decoding import convert_body
from frontend.openai.schemas import ChatBody
from frontend.tools.forced_calls import forced_calls_schema
from frontend.tools.tool_use import ToolUse, read_tool_use
from tests.support.frontend_app import engine_that_says, http_client

MESSAGES = [{"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("now", "weather", "buy")]


def choice(mode: str, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def read(tool_choice: Any, **fields: Any) -> ToolUse:
    body = {"messages": MESSAGES, "tools": TOOLS, "tool_choice": tool_choice, **fields}
    return read_tool_use(convert_body(body, ChatBody))


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_the_model_hears_of_the_allowed_ones_alone_in_the_order_of_the_tools(mode: str) -> None:
    use = read(choice(mode, "weather", "now"))
    assert use.choice == mode
    assert [function.name for function in use.functions] == ["now", "weather"]
    assert use.for_template() == TOOLS[:2]


def test_a_required_call_can_be_of_no_other() -> None:
    schema = forced_calls_schema(read(choice("required", "weather")))
    assert schema == forced_calls_schema(read("required", tools=TOOLS[1:2]))


def test_all_may_be_allowed_and_one_may_be_named_twice() -> None:
    assert read(choice("auto", "now", "weather", "buy")) == read("auto")
    assert read(choice("auto", "now", "now")) == read("auto", tools=TOOLS[:1])


def test_other_wishes_are_kept() -> None:
    assert not read(choice("auto", "now"), parallel_tool_calls=False).takes_several


@pytest.mark.parametrize(
    ("tool_choice", "param"),
    [
        (choice("auto"), "tool_choice.allowed_tools.tools"),
        (choice("auto", "now", "sell"), "tool_choice.allowed_tools.tools"),
        (choice("none", "now"), "tool_choice.allowed_tools.mode"),
        ({"type": "allowed_tools"}, "tool_choice.allowed_tools"),
        ({"type": "allowed_tools", "function": {"name": "now"}}, "tool_choice.allowed_tools"),
        ({"type": "allowed_tools", "allowed_tools": {}}, "tool_choice.allowed_tools.mode"),
        ({"type": "function"}, "tool_choice.function"),
        ({"type": "other"}, "tool_choice.type"),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "web"}]},
            },
            "tool_choice.allowed_tools.tools[0].type",
        ),
    ],
)
def test_what_is_wrong_is_refused_by_the_name_of_its_field(tool_choice: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(tool_choice)
    assert caught.value.param == param


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_without_tools_none_can_be_allowed(mode: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(choice(mode, "now"), tools=[])
    assert (caught.value.param or "").startswith("tool_choice")


@pytest.mark.parametrize("streamed", [False, True])
async def test_over_http_the_answer_is_held_to_the_allowed_tools(streamed: bool) -> None:
    engine = engine_that_says('[{"name": "now", "parameters": {}}]')
    body = {"messages": MESSAGES, "tools": TOOLS, "stream": streamed}
    async with http_client(engine) as client:
        for tool_choice in (choice("required", "now"), choice("required", "now", "sell")):
            fields = {**body, "tool_choice": tool_choice}
            answer = await client.post("/v1/chat/completions", json=fields)
            if "sell" not in str(tool_choice):
                assert answer.status_code == 200
                assert '"name":"now"' in answer.text
            else:
                assert answer.status_code == 400
    [request] = engine.submitted
    assert "now" in request.sampling.grammar
    assert "weather" not in request.sampling.grammar
