"""A body of the Responses API to the chat body that asks for the same."""

from typing import Any

import msgspec

from cluster.errors import InvalidRequest
from frontend.openai.schemas import (
    AllowedTool,
    AllowedTools,
    ChatBody,
    FunctionDefinition,
    JsonSchemaFormat,
    NamedFunction,
    NamedToolChoice,
    ResponseFormat,
    ToolDefinition,
)
from frontend.openai.shared_fields import SharedFields
from frontend.responses_api.conversation import read_conversation
from frontend.responses_api.metadata import check_metadata_keys
from frontend.responses_api.nesting import check_nesting
from frontend.responses_api.schemas import (
    ChoiceMode,
    ChosenTool,
    FunctionTool,
    ResponsesBody,
    TextFormat,
    ToolChoice,
)
from frontend.responses_api.typed_fields import checked_type, convert_part
from frontend.responses_api.unsupported import LOGPROBS, refuse_unsupported

SAME_AS_IN_CHATS = (
    *(field.name for field in msgspec.structs.fields(SharedFields)),
    "parallel_tool_calls",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template",
    "chat_template_kwargs",
    "documents",
    "include_reasoning",
)
"""Fields that mean the same under the same name."""


def chat_body(body: ResponsesBody) -> ChatBody:
    """The chat body. Raises InvalidRequest, naming the field, for what no chat can be asked for."""
    refuse_unsupported(body)
    check_metadata_keys(body.metadata or {})
    wants_logprobs = LOGPROBS in (body.include or [])
    return ChatBody(
        messages=read_conversation(body.instructions, body.input),
        max_completion_tokens=body.max_output_tokens,
        tools=[_tool_definition(tool, f"tools[{i}]") for i, tool in enumerate(body.tools or [])],
        tool_choice=_tool_choice(body.tool_choice),
        response_format=_response_format(body),
        reasoning_effort=body.reasoning.effort if body.reasoning is not None else None,
        logprobs=wants_logprobs,
        top_logprobs=body.top_logprobs if wants_logprobs else None,
        **{name: getattr(body, name) for name in SAME_AS_IN_CHATS},
    )


def _tool_definition(fields: dict[str, Any], path: str) -> ToolDefinition:
    checked_type(fields, {"function": FunctionTool}, path)
    tool = convert_part(fields, FunctionTool, path)
    return ToolDefinition(
        function=FunctionDefinition(
            name=tool.name,
            description=tool.description,
            parameters=tool.parameters,
            strict=tool.strict,
        )
    )


def _tool_choice(choice: ToolChoice | None) -> ChoiceMode | NamedToolChoice | None:
    if not isinstance(choice, ChosenTool):
        return choice
    return _named_choice(choice) if choice.type == "function" else _allowed_choice(choice)


def _named_choice(choice: ChosenTool) -> NamedToolChoice:
    if choice.name is None:
        raise InvalidRequest("tool_choice.name is required", "tool_choice.name")
    return NamedToolChoice(function=NamedFunction(name=choice.name))


def _allowed_choice(choice: ChosenTool) -> NamedToolChoice:
    if choice.mode is None:
        raise InvalidRequest("tool_choice.mode is required", "tool_choice.mode")
    tools: list[AllowedTool] = []
    for index, fields in enumerate(choice.tools or []):
        path = f"tool_choice.tools[{index}]"
        checked_type(fields, {"function": NamedFunction}, path)
        tools.append(AllowedTool(function=convert_part(fields, NamedFunction, path)))
    allowed = AllowedTools(mode=choice.mode, tools=tools)
    return NamedToolChoice(type="allowed_tools", allowed_tools=allowed)


def _response_format(body: ResponsesBody) -> ResponseFormat | None:
    wanted = body.text.format if body.text is not None else None
    if wanted is None:
        return None
    check_nesting(wanted.schema, "text.format.schema")
    schema = _json_schema(wanted) if wanted.type == "json_schema" else None
    return ResponseFormat(type=wanted.type, json_schema=schema)


def _json_schema(wanted: TextFormat) -> JsonSchemaFormat:
    if wanted.name is None:
        raise InvalidRequest("text.format.name is required", "text.format.name")
    return JsonSchemaFormat(
        name=wanted.name,
        description=wanted.description,
        schema=wanted.schema,
        strict=wanted.strict,
    )
