"""The bodies that clients send, as OpenAI and vLLM define them.

`null` always means the same as leaving a field out. Fields that are not here are ignored, as by vLLM;
those that would change the answer but are not supported are in `frontend.openai.unsupported`. The OpenAPI
document shows the texts below a field, and leaves out fields of type `Any`: no value of theirs is of use.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from frontend.openai.limits import Count, FunctionName, NumLogprobs, PositiveCount, Prompts, TokenId
from frontend.openai.shared_fields import SharedFields


class StreamOptions(msgspec.Struct, kw_only=True):
    """What a stream carries beside the text."""

    include_usage: bool | None = None
    """One more chunk before the end, with the usage of the request."""
    continuous_usage_stats: bool | None = None
    """The usage so far in every chunk."""


class JsonSchemaFormat(msgspec.Struct, kw_only=True):
    """A JSON schema with a name."""

    name: str
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None
    """Schemas are enforced either way."""


class ResponseFormat(msgspec.Struct, kw_only=True):
    """The form of the answer, in OpenAI's words."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFormat | None = None
    schema: Any = None
    """Not where it belongs: only looked at to say so."""


class GenerationBody(SharedFields, kw_only=True):
    """The fields that both ways to generate share."""

    n: PositiveCount | None = None
    """Answers to each prompt; 1 if left out."""
    stream_options: StreamOptions | None = None
    max_tokens: Count | None = None
    max_completion_tokens: PositiveCount | None = None
    """The newer name of `max_tokens`; wins over it."""
    prompt_logprobs: NumLogprobs | None = None
    return_token_ids: bool | None = None
    response_format: ResponseFormat | None = None


class CompletionBody(GenerationBody, kw_only=True):
    """POST /v1/completions."""

    prompt: Prompts
    """A text, token ids, or a list of either."""
    echo: bool | None = None
    """Whether the answer begins with the prompt."""
    logprobs: NumLogprobs | None = None
    """How many of the likeliest tokens are told at each position."""
    suffix: Any = None
    best_of: int | None = None
    prompt_embeds: Any = None


class ToolFunction(msgspec.Struct, kw_only=True):
    """A function that the assistant called, its arguments as JSON text."""

    name: str
    arguments: str | dict[str, Any] | None = None


class ToolCall(msgspec.Struct, kw_only=True):
    """One call in an assistant's turn."""

    function: ToolFunction
    id: str | None = None
    type: str = "function"


class ContentPart(msgspec.Struct, kw_only=True):
    """A piece of a message; only text is understood."""

    type: str = "text"
    text: str | None = None
    refusal: str | None = None


class ChatMessage(msgspec.Struct, kw_only=True):
    """One turn of a conversation."""

    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    function_call: ToolFunction | None = None
    """The older form of one tool call."""
    reasoning_content: str | None = None


class FunctionDefinition(msgspec.Struct, kw_only=True):
    """A function that the model may call."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    """The JSON schema of its arguments, an object; none are as good as an empty one."""
    strict: bool | None = None


class ToolDefinition(msgspec.Struct, kw_only=True):
    """A tool; all of them are functions."""

    type: Literal["function"] = "function"
    function: FunctionDefinition


class NamedFunction(msgspec.Struct, kw_only=True):
    """A function by its name."""

    name: str


class AllowedTool(msgspec.Struct, kw_only=True):
    """One of the tools that may be used, by its name."""

    type: Literal["function"] = "function"
    function: NamedFunction


class AllowedTools(msgspec.Struct, kw_only=True):
    """Some of the tools, and whether one of them must be used."""

    mode: Literal["auto", "required"]
    tools: list[AllowedTool]


class NamedToolChoice(msgspec.Struct, kw_only=True):
    """The one function that the model must call, or the tools among which it may choose."""

    type: Literal["function", "allowed_tools"] = "function"
    function: NamedFunction | None = None
    allowed_tools: AllowedTools | None = None


class ChatBody(GenerationBody, kw_only=True):
    """POST /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: list[Any] | None = None
    reasoning_effort: str | None = None
    include_reasoning: bool | None = None
    tools: list[ToolDefinition] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedToolChoice | None = None
    parallel_tool_calls: bool | None = None
    functions: list[FunctionDefinition] | None = None
    function_call: Literal["none", "auto"] | NamedFunction | None = None
    max_tokens: PositiveCount | None = None
    logprobs: bool | None = None
    top_logprobs: NumLogprobs | None = None
    """How many of the likeliest tokens are told at each position; needs `logprobs`."""

    # Refused unless they ask for nothing.
    chat_template: Any = None
    modalities: Any = None
    audio: Any = None
    web_search_options: Any = None
    echo: Any = None


class TokenizeCompletionBody(msgspec.Struct, kw_only=True):
    """POST /tokenize with a text."""

    prompt: str
    model: str | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class TokenizeChatBody(ChatBody, kw_only=True):
    """POST /tokenize with messages: a chat request, of which only the prompt is made."""

    return_token_strs: bool | None = None


class DetokenizeBody(msgspec.Struct, kw_only=True):
    """POST /detokenize."""

    tokens: list[TokenId]
    model: str | None = None
