"""The objects that clients get, as OpenAI defines them."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from frontend.openai.responses import ChatLogprob, QuadrigaExtension
from frontend.responses_api.schemas import (
    ReasoningOptions,
    TextFormat,
    ToolChoice,
)

ItemStatus = Literal["in_progress", "completed", "incomplete"]
ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed"]


class OutputText(msgspec.Struct, kw_only=True, tag_field="type", tag="output_text"):
    """Text for the reader."""

    text: str
    annotations: list[Any] = []
    logprobs: list[ChatLogprob] = []


class ReasoningText(msgspec.Struct, kw_only=True, tag_field="type", tag="reasoning_text"):
    """What the model thinks aloud."""

    text: str


class OutputMessage(msgspec.Struct, kw_only=True, tag_field="type", tag="message"):
    """The item that is for the reader."""

    id: str
    status: ItemStatus
    role: Literal["assistant"] = "assistant"
    content: list[OutputText]


class OutputReasoning(msgspec.Struct, kw_only=True, tag_field="type", tag="reasoning"):
    """The item that holds the reasoning, unabridged; there is never a summary."""

    id: str
    status: ItemStatus
    summary: list[Any] = []
    content: list[ReasoningText]


class OutputFunctionCall(msgspec.Struct, kw_only=True, tag_field="type", tag="function_call"):
    """The item that calls a function, its arguments as JSON text."""

    id: str
    status: ItemStatus
    call_id: str
    name: str
    arguments: str


OutputItem = OutputMessage | OutputReasoning | OutputFunctionCall
ContentPart = OutputText | ReasoningText


class InputTokensDetails(msgspec.Struct, kw_only=True):
    """Of the input's tokens, those found in an engine's prefix cache. None is written at a wish."""

    cached_tokens: int
    cache_write_tokens: int = 0


class OutputTokensDetails(msgspec.Struct, kw_only=True):
    """Of the tokens generated, those that are reasoning; 0 where it is not told apart."""

    reasoning_tokens: int


class ResponseUsage(msgspec.Struct, kw_only=True):
    """Tokens of a response."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class IncompleteDetails(msgspec.Struct, kw_only=True):
    """Why a response ends too early."""

    reason: Literal["max_output_tokens"]


class ResponseError(msgspec.Struct, kw_only=True):
    """Why a response failed."""

    code: Literal["server_error"] = "server_error"
    message: str


class TextConfig(msgspec.Struct, kw_only=True):
    """The form that the answer's text has."""

    format: TextFormat
    verbosity: Literal["medium"] = "medium"


class Response(msgspec.Struct, kw_only=True):
    """A response, under way or ended, with the fields of its request."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: ResponseStatus
    background: Literal[False] = False
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    model: str
    output: list[OutputItem]
    parallel_tool_calls: bool
    previous_response_id: None = None
    prompt_cache_key: str | None
    reasoning: ReasoningOptions
    safety_identifier: str | None
    service_tier: Literal["default"] = "default"
    store: Literal[False] = False
    temperature: float
    text: TextConfig
    tool_choice: ToolChoice
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float
    truncation: Literal["disabled"] = "disabled"
    usage: ResponseUsage | None = None
    user: str | None
    metadata: dict[str, str]
    quadriga: QuadrigaExtension | UnsetType = UNSET
    """Set once the response has ended well."""
