"""The bodies that clients send, as OpenAI and vLLM define them.

`null` always means the same as leaving a field out. Fields that are not here are ignored, as by vLLM;
those that would change the answer but are not supported are in `frontend.openai.unsupported`.
"""

from typing import Any

import msgspec


class StreamOptions(msgspec.Struct, kw_only=True):
    """What a stream carries beside the text."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


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

    # Refused unless they ask for nothing: see `frontend.openai.unsupported`.
    response_format: Any = None
    structured_outputs: Any = None
    guided_json: Any = None
    guided_regex: Any = None
    guided_choice: Any = None
    guided_grammar: Any = None
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


class ChatBody(GenerationBody, kw_only=True):
    """POST /v1/chat/completions."""

    messages: list[ChatMessage]
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: list[Any] | None = None
    reasoning_effort: str | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None

    # Refused unless they ask for nothing.
    chat_template: Any = None
    functions: Any = None
    function_call: Any = None
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
