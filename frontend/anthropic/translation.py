"""Anthropic's bodies to chat bodies, and the errors about these back."""

import operator
import re
from typing import Any, Literal

import msgspec

from cluster.errors import ContextLengthExceeded, InvalidRequest, RequestError
from frontend.anthropic.schemas import (
    AdaptiveThinking,
    AnyChoice,
    AutoChoice,
    DisabledThinking,
    EnabledThinking,
    MessageBody,
    NamedChoice,
    NoChoice,
    OutputConfig,
    PromptBody,
    Thinking,
    Tool,
    ToolChoice,
)
from frontend.anthropic.turns import chat_messages
from frontend.openai.schemas import (
    ChatBody,
    FunctionDefinition,
    JsonSchemaFormat,
    NamedFunction,
    NamedToolChoice,
    ResponseFormat,
    ToolDefinition,
)
from frontend.openai.unsupported import refuse_fields

UNSUPPORTED = dict.fromkeys(("mcp_servers", "container", "output_format"), operator.not_)
CHAT_FIELDS = (
    (r"stop", "stop_sequences"),
    (r"continue_final_message", "messages"),
    (r"response_format\.json_schema\.schema", "output_config.format.schema"),
    (r"response_format", "output_config.format"),
    (r"(tools\[\d+\])\.function\.parameters", r"\1.input_schema"),
)
"""Names of chat bodies' fields, and what the same things are called in Anthropic's."""


def chat_body(body: MessageBody) -> ChatBody:
    """The chat request with the same answer. Raises InvalidRequest naming Anthropic's field."""
    return msgspec.structs.replace(
        prompt_body(body),
        max_tokens=body.max_tokens,
        stream=body.stream,
        stop=body.stop_sequences,
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        seed=body.seed,
        priority=body.priority,
        cache_salt=body.cache_salt,
        data_parallel_rank=body.data_parallel_rank,
    )


def prompt_body(body: PromptBody) -> ChatBody:
    """A chat request with the same prompt. Raises InvalidRequest naming Anthropic's field."""
    _refuse_unsupported(body)
    messages = chat_messages(body.system, body.messages)
    return ChatBody(
        model=body.model,
        messages=messages,
        continue_final_message=messages[-1].role == "assistant",
        tools=[_tool_definition(tool) for tool in body.tools or []],
        tool_choice=_tool_choice(body.tool_choice),
        parallel_tool_calls=_takes_several(body.tool_choice),
        chat_template_kwargs=_template_variables(body.thinking),
        include_reasoning=_shows_reasoning(body.thinking),
        reasoning_effort=body.output_config.effort if body.output_config is not None else None,
        response_format=_response_format(body.output_config),
    )


def in_anthropics_words(error: RequestError) -> RequestError:
    """The same error about the field as Anthropic calls it."""
    if isinstance(error, ContextLengthExceeded):
        # Clients that shorten a conversation and try again look for these words.
        return ContextLengthExceeded(f"prompt is too long: {error.message}", error.param)
    param = error.param or ""
    for pattern, replacement in CHAT_FIELDS:
        if found := re.fullmatch(pattern, param):
            name = found.expand(replacement)
            return type(error)(error.message.replace(param, name, 1), name)
    return error


def _refuse_unsupported(body: PromptBody) -> None:
    refuse_fields(body, UNSUPPORTED)
    if isinstance(body.thinking, EnabledThinking) and isinstance(
        body.tool_choice, AnyChoice | NamedChoice
    ):
        raise InvalidRequest(
            "thinking cannot be enabled where tool_choice is any or tool: the answer begins with a call",
            "thinking",
        )


def _tool_definition(tool: Tool) -> ToolDefinition:
    return ToolDefinition(
        function=FunctionDefinition(
            name=tool.name,
            description=tool.description,
            parameters=tool.input_schema,
            strict=tool.strict,
        )
    )


def _tool_choice(
    choice: ToolChoice | None,
) -> Literal["none", "auto", "required"] | NamedToolChoice | None:
    match choice:
        case None:
            return None
        case AutoChoice():
            return "auto"
        case AnyChoice():
            return "required"
        case NamedChoice():
            return NamedToolChoice(function=NamedFunction(name=choice.name))
        case NoChoice():
            return "none"


def _takes_several(choice: ToolChoice | None) -> bool:
    return choice is None or isinstance(choice, NoChoice) or not choice.disable_parallel_tool_use


def _template_variables(thinking: Thinking | None) -> dict[str, Any] | None:
    """What chat templates call it where models can be told to reason; others read neither name."""
    match thinking:
        case None | AdaptiveThinking():
            return None
        case EnabledThinking() | DisabledThinking():
            is_enabled = isinstance(thinking, EnabledThinking)
            return {"enable_thinking": is_enabled, "thinking": is_enabled}


def _shows_reasoning(thinking: Thinking | None) -> bool:
    match thinking:
        case None:
            return True
        case DisabledThinking():
            return False
        case EnabledThinking() | AdaptiveThinking():
            return thinking.display != "omitted"


def _response_format(config: OutputConfig | None) -> ResponseFormat | None:
    if config is None or config.format is None:
        return None
    schema = JsonSchemaFormat(name="answer", schema=config.format.schema)
    return ResponseFormat(type="json_schema", json_schema=schema)
