"""The bodies that clients send to POST /v1/responses, as OpenAI and vLLM define them.

`null` always means the same as leaving a field out. Items and tools are read by their `type`, in
`frontend.responses_api.conversation` and `frontend.responses_api.translation`.
"""

from typing import Any, Literal

import msgspec

from frontend.openai.limits import FunctionName, NumLogprobs, PositiveCount
from frontend.openai.shared_fields import SharedFields
from frontend.responses_api.metadata import Metadata


class InputPart(msgspec.Struct, kw_only=True):
    """A piece of an item's content; only text is understood."""

    type: str
    text: str | None = None
    refusal: str | None = None


class MessageItem(msgspec.Struct, kw_only=True):
    """A turn of the conversation; its `type` may be left out."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[InputPart]


class FunctionCallItem(msgspec.Struct, kw_only=True):
    """A call of a function in an earlier answer, its arguments as JSON text."""

    call_id: str
    name: str
    arguments: str


class FunctionCallOutputItem(msgspec.Struct, kw_only=True):
    """What a call gave."""

    call_id: str
    output: str | list[InputPart]


class ReasoningItem(msgspec.Struct, kw_only=True):
    """What the model thought before an earlier answer."""

    content: list[InputPart] | None = None
    summary: list[InputPart] | None = None


class FunctionTool(msgspec.Struct, kw_only=True):
    """A function that the model may call."""

    type: Literal["function"] = "function"
    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ChosenTool(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The one function that must be called, or the tools among which the model may choose."""

    type: Literal["function", "allowed_tools"]
    name: str | None = None
    mode: Literal["auto", "required"] | None = None
    tools: list[dict[str, Any]] | None = None


ChoiceMode = Literal["none", "auto", "required"]
ToolChoice = ChoiceMode | ChosenTool


class TextFormat(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The form of the answer: text, any JSON object, or JSON that follows a schema."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None
    """Schemas are enforced either way."""


class TextOptions(msgspec.Struct, kw_only=True):
    """What is said of the answer's text."""

    format: TextFormat | None = None
    verbosity: str | None = None


class ReasoningOptions(msgspec.Struct, kw_only=True):
    """What is said of the model's reasoning. It is told as it is, so a summary is never made."""

    effort: str | None = None
    summary: str | None = None


class ResponsesBody(SharedFields, kw_only=True):
    """POST /v1/responses."""

    input: str | list[dict[str, Any]]
    instructions: str | None = None
    max_output_tokens: PositiveCount | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: PositiveCount | None = None
    """Counts calls of tools that a server runs itself: there are none."""
    text: TextOptions | None = None
    reasoning: ReasoningOptions | None = None
    include: list[str] | None = None
    top_logprobs: NumLogprobs | None = None
    metadata: Metadata | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    store: bool | None = None
    """Nothing is stored, whatever this says."""
    truncation: Literal["auto", "disabled"] | None = None

    # Beyond OpenAI's, as in chats.
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: list[Any] | None = None
    include_reasoning: bool | None = None

    # Refused unless they ask for nothing: see `frontend.responses_api.unsupported`.
    chat_template: Any = None
    background: Any = None
    previous_response_id: Any = None
    conversation: Any = None
    prompt: Any = None
    context_management: Any = None
    moderation: Any = None
    messages: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    response_format: Any = None
    reasoning_effort: Any = None
    functions: Any = None
