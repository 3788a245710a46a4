"""The bodies that clients send, as OpenAI and vLLM define them.

`null` always means the same as leaving a field out. Fields that are not here are ignored, as by vLLM;
those that would change the answer but are not supported are in `frontend.openai.unsupported`.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


class StreamOptions(msgspec.Struct, kw_only=True):
    """What a stream carries beside the text."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class JsonSchemaFormat(msgspec.Struct, kw_only=True):
    """A JSON schema with a name."""

    name: str
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None
    """Schemas are enforced either way."""


class ResponseFormat(msgspec.Struct, kw_only=True):
    """The form of the answer, in OpenAI's words."""

    type: str
    json_schema: JsonSchemaFormat | None = None
    schema: Any = None
    """Not where it belongs: only looked at to say so."""


class StructuredOutputs(msgspec.Struct, kw_only=True):
    """The form of the answer, in vLLM's words: exactly one of the first five."""

    json: str | dict[str, Any] | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None

    # Refused unless they ask for nothing.
    structural_tag: Any = None
    whitespace_pattern: Any = None
    disable_any_whitespace: Any = None
    disable_additional_properties: Any = None


class GenerationBody(msgspec.Struct, kw_only=True):
    """The fields that both ways to generate share."""

    model: str | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    logit_bias: dict[str, float] | None = None
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] | None = None

    max_tokens: int | None = None
    min_tokens: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None

    prompt_logprobs: int | None = None
    truncate_prompt_tokens: int | None = None
    add_special_tokens: bool | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    priority: int | None = None
    cache_salt: str | None = None
    data_parallel_rank: int | None = None

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: str | dict[str, Any] | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None

    # Refused unless they ask for nothing: see `frontend.openai.unsupported`.
    structural_tag: Any = None
    use_beam_search: Any = None
    logits_processors: Any = None
    thinking_token_budget: Any = None
    repetition_detection: Any = None
    kv_transfer_params: Any = None


class CompletionBody(GenerationBody, kw_only=True):
    """POST /v1/completions."""

    prompt: str | list[Any]
    """A text, token ids, or a list of either."""
    echo: bool | None = None
    logprobs: int | None = None
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
    reasoning_content: str | None = None


FunctionName = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


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


class NamedToolChoice(msgspec.Struct, kw_only=True):
    """The one function that the model must call."""

    type: Literal["function"] = "function"
    function: NamedFunction


class ChatBody(GenerationBody, kw_only=True):
    """POST /v1/chat/completions."""

    messages: list[ChatMessage]
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
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None

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

    tokens: list[int]
    model: str | None = None
