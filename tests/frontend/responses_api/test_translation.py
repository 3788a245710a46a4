"""Bodies to chat bodies."""

from typing import Any

import msgspec
import pytest

from cluster.errors import InvalidRequest
from frontend.openai.decoding import convert_body
from frontend.openai.schemas import ChatBody, FunctionDefinition, JsonSchemaFormat
from frontend.responses_api.schemas import ResponsesBody
from frontend.responses_api.translation import SAME_AS_IN_CHATS, chat_body

TOOL: dict[str, Any] = {
    "type": "function",
    "name": "now",
    "description": "The time.",
    "parameters": {"type": "object"},
    "strict": True,
}


def translated(**fields: Any) -> ChatBody:
    return chat_body(convert_body({"input": "Hi", **fields}, ResponsesBody))


def wrong(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        translated(**fields)
    return caught.value


def test_fields_that_mean_the_same_keep_their_names() -> None:
    fields = {
        "temperature": 0.5, "top_k": 3, "min_p": 0.1, "seed": 7, "stop": ["x"], "cache_salt": "a",
        "min_tokens": 2, "stop_token_ids": [5], "logit_bias": {"5": 1.5}, "ignore_eos": True,
        "allowed_token_ids": [5], "bad_words": ["x"], "skip_special_tokens": False,
        "include_stop_str_in_output": True, "truncate_prompt_tokens": 9, "guided_regex": "a",
        "include_reasoning": False, "continue_final_message": True, "documents": ["a"],
    }  # fmt: skip
    chat = translated(**fields)
    assert {name: getattr(chat, name) for name in fields} == fields


ONLY_IN_CHATS = {
    "functions", "function_call", "logprobs", "max_completion_tokens", "max_tokens", "messages",
    "n", "prompt_logprobs", "reasoning_effort", "response_format", "return_token_ids", "stream_options",
    "audio", "echo", "modalities", "web_search_options",
}  # fmt: skip
"""What has another name or form here, or no place in a response."""


def test_fields_that_mean_the_same_have_the_same_limits() -> None:
    chat, here = (
        {field.name: field.type for field in msgspec.structs.fields(body_type)}
        for body_type in (ChatBody, ResponsesBody)
    )
    for name in SAME_AS_IN_CHATS:
        assert here[name] == chat[name], name
    with_other_forms = {"tools", "tool_choice", "top_logprobs"}
    assert chat.keys() == ONLY_IN_CHATS | with_other_forms | set(SAME_AS_IN_CHATS)


def test_the_limit_of_the_output_has_another_name() -> None:
    chat = translated(max_output_tokens=5, reasoning={"effort": "low"})
    assert (chat.max_completion_tokens, chat.max_tokens) == (5, None)
    assert chat.reasoning_effort == "low"


def test_tools_are_flat() -> None:
    chat = translated(tools=[TOOL])
    assert chat.tools is not None
    fields = {name: value for name, value in TOOL.items() if name != "type"}
    assert [tool.function for tool in chat.tools] == [FunctionDefinition(**fields)]


def test_a_schema_is_flat() -> None:
    form = {"type": "json_schema", "name": "thing", "schema": {"type": "object"}, "strict": True}
    chat = translated(text={"format": form})
    assert chat.response_format is not None
    assert chat.response_format.type == "json_schema"
    assert chat.response_format.json_schema == JsonSchemaFormat(
        name="thing", schema={"type": "object"}, strict=True
    )


def test_log_probabilities_are_asked_for_by_including_them() -> None:
    chat = translated(include=["message.output_text.logprobs"], top_logprobs=2)
    assert (chat.logprobs, chat.top_logprobs) == (True, 2)
    chat = translated(top_logprobs=2)
    assert (chat.logprobs, chat.top_logprobs) == (False, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"background": False, "previous_response_id": None, "truncation": "disabled"},
        {"text": {"verbosity": "medium"}, "include": ["reasoning.encrypted_content"]},
        {"store": True, "service_tier": "auto", "request_id": "mine", "stream_options": {}},
    ],
)
def test_what_asks_for_nothing_is_let_in(fields: dict[str, Any]) -> None:
    assert translated(**fields).messages


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"background": True}, "background"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"truncation": "auto"}, "truncation"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"include": ["reasoning.encrypted_content", "x"]}, "include[1]"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tools": [TOOL, {"type": "web_search"}]}, "tools[1].type"),
        ({"tools": [{"name": "now"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{**TOOL, "name": "not a name"}]}, "tools[0].name"),
        ({"tools": [{**TOOL, "parameters": 5}]}, "tools[0].parameters"),
        ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice.name"),
        ({"tools": [TOOL], "tool_choice": {"type": "web_search"}}, "tool_choice.type"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.mode"),
        (
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}},
            "tool_choice.tools[0].type",
        ),
        ({"text": {"format": {"type": "bogus"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.name"),
    ],
)
def test_what_cannot_be_had_is_named(fields: dict[str, Any], param: str) -> None:
    assert wrong(**fields).param == param
