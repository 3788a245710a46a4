"""The bodies that clients send, as OpenAI and vLLM define them.

`null` always means the same as leaving a field out. Fields that are not here are ignored, as by vLLM;
those that would change the answer but are not supported are in `frontend.openai.unsupported`. The OpenAPI
document shows the texts below a field, and leaves out fields of type `Any`: no value of theirs is of use.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from frontend.openai.limits import (
    CacheSalt,
    Count,
    FunctionName,
    LogitBias,
    MinP,
    NumLogprobs,
    Penalty,
    PositiveCount,
    Priority,
    Prompts,
    Rank,
    RepetitionPenalty,
    Seed,
    SomeTokenIds,
    Temperature,
    TokenId,
    TokenIds,
    TopK,
    TopP,
    Word,
    Words,
)


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
    n: PositiveCount | None = None
    """Answers to each prompt; 1 if left out."""
    stream: bool | None = None
    """Whether the answer comes as server-sent events, chunk by chunk."""
    stream_options: StreamOptions | None = None

    temperature: Temperature | None = None
    """0 is greedy. Without one: what the model's authors recommend, else 1."""
    top_p: TopP | None = None
    top_k: TopK | None = None
    """0 and -1 are all tokens."""
    min_p: MinP | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: RepetitionPenalty | None = None
    seed: Seed | None = None
    """The same seed, body and model give the same answer."""
    logit_bias: LogitBias | None = None
    """From token ids to what is added to their logits."""
    allowed_token_ids: TokenIds | None = None
    """The only tokens that may be generated."""
    bad_words: Words | None = None
    """Texts that are never generated."""

    max_tokens: Count | None = None
    max_completion_tokens: PositiveCount | None = None
    """The newer name of `max_tokens`; wins over it."""
    min_tokens: Count | None = None
    """No end of text and no stop string counts before so many tokens."""
    stop: Word | list[Word] | None = None
    """Texts that end the answer."""
    stop_token_ids: SomeTokenIds | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None

    prompt_logprobs: NumLogprobs | None = None
    truncate_prompt_tokens: Annotated[int, Meta(ge=-1)] | None = None
    """How many tokens of the prompt's end are kept; -1: what fits."""
    add_special_tokens: bool | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    priority: Priority | None = None
    """Lower goes first."""
    cache_salt: CacheSalt | None = None
    """Cached prefixes are shared only among requests with the same salt."""
    data_parallel_rank: Rank | None = None
    """The engine that must answer."""

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
