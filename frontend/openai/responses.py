"""The bodies that clients get, as OpenAI and vLLM define them."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

TopLogprobs = list[dict[str, float] | None]


class PromptTokensDetails(msgspec.Struct):
    """Of the prompt's tokens, those found in an engine's prefix cache."""

    cached_tokens: int = 0


class CompletionTokensDetails(msgspec.Struct):
    """Of the tokens generated, those that are the model's reasoning."""

    reasoning_tokens: int = 0


class Usage(msgspec.Struct, kw_only=True):
    """Tokens of a request, over all prompts and choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails | UnsetType = UNSET
    """Set where reasoning is told apart."""


class QuadrigaExtension(msgspec.Struct, kw_only=True):
    """What only this server tells: how often choices moved to another engine, and who ended them."""

    migrations: int
    engines: list[int | None]
    """The rank of the engine that each choice was last on."""


class TopLogprob(msgspec.Struct):
    """One of the likeliest tokens at a position."""

    token: str
    logprob: float
    bytes: list[int]


class ChatLogprob(TopLogprob):
    """A token of a chat answer, and the likeliest ones in its place."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct):
    """The tokens of a chat answer."""

    content: list[ChatLogprob]


class CompletionLogprobs(msgspec.Struct, kw_only=True):
    """The tokens of a completion, column by column."""

    text_offset: list[int]
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: TopLogprobs


class PromptLogprob(msgspec.Struct):
    """A token's log probability at a position of the prompt; `rank` 1 is the likeliest."""

    logprob: float
    rank: int | None
    decoded_token: str


PromptLogprobs = list[dict[int, PromptLogprob] | None]


class CalledFunction(msgspec.Struct, kw_only=True):
    """A function that the model calls, its arguments as JSON text."""

    name: str
    arguments: str


class AnsweredToolCall(msgspec.Struct, kw_only=True):
    """One call of the assistant's."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class AnsweredMessage(msgspec.Struct, kw_only=True):
    """The assistant's turn. Reasoning has two names, since clients read either."""

    content: str | None
    role: Literal["assistant"] = "assistant"
    refusal: str | None = None
    tool_calls: list[AnsweredToolCall] | UnsetType = UNSET
    function_call: CalledFunction | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET


class ChatChoice(msgspec.Struct, kw_only=True):
    """One whole answer."""

    index: int
    message: AnsweredMessage
    logprobs: ChatLogprobs | None
    finish_reason: str | None
    stop_reason: int | str | None
    token_ids: list[int] | UnsetType = UNSET


class ChatCompletion(msgspec.Struct, kw_only=True):
    """The answer to a chat request that is not streamed."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    prompt_logprobs: PromptLogprobs | UnsetType | None = UNSET
    prompt_token_ids: list[int] | UnsetType = UNSET
    quadriga: QuadrigaExtension


class CalledFunctionDelta(msgspec.Struct, kw_only=True):
    """The name of a function that is called, or more of its arguments' JSON text."""

    name: str | UnsetType = UNSET
    arguments: str


class ToolCallDelta(msgspec.Struct, kw_only=True):
    """What a chunk adds to a call; only the first of each call has id, type and name."""

    index: int
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET
    function: CalledFunctionDelta


class ChatDelta(msgspec.Struct, omit_defaults=True):
    """What a chunk adds to the assistant's turn."""

    role: str | UnsetType = UNSET
    content: str | UnsetType | None = UNSET
    tool_calls: list[ToolCallDelta] | UnsetType = UNSET
    function_call: CalledFunctionDelta | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET


class ChatChunkChoice(msgspec.Struct, kw_only=True):
    """What a chunk adds to one choice."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | UnsetType | None = UNSET
    token_ids: list[int] | UnsetType = UNSET


class ChatCompletionChunk(msgspec.Struct, kw_only=True):
    """One event of a chat stream."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | UnsetType | None = UNSET
    prompt_token_ids: list[int] | UnsetType = UNSET
    quadriga: QuadrigaExtension | UnsetType = UNSET


class CompletionChoice(msgspec.Struct, kw_only=True):
    """One answer, or what a chunk adds to it."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | UnsetType | None = UNSET
    token_ids: list[int] | UnsetType = UNSET
    prompt_token_ids: list[int] | UnsetType = UNSET
    prompt_logprobs: PromptLogprobs | UnsetType | None = UNSET


class Completion(msgspec.Struct, kw_only=True):
    """The answer to a completion request, or one event of its stream."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None = UNSET
    quadriga: QuadrigaExtension | UnsetType = UNSET


class ModelCard(msgspec.Struct, kw_only=True):
    """The served model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "quadriga"
    root: str
    parent: str | None = None
    max_model_len: int
    simulated: Literal[True] | UnsetType = UNSET
    """Set where no model answers, but `--engine simulated`."""


class ModelList(msgspec.Struct, kw_only=True):
    """All served models: one."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class TokenizeResponse(msgspec.Struct, kw_only=True):
    """The tokens of a prompt."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeResponse(msgspec.Struct):
    """The text of tokens."""

    prompt: str


class ErrorDetail(msgspec.Struct, kw_only=True):
    """What went wrong, in OpenAI's shape."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(msgspec.Struct):
    """The body of every answer that is not a success."""

    error: ErrorDetail
