"""The bodies that clients send, as Anthropic defines them, with a few fields of vLLM's.

`null` always means the same as leaving a field out. Fields that are not here are ignored, as by vLLM:
among them `metadata`, `service_tier` and every `cache_control`, since prefixes are cached unasked.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from frontend.anthropic.blocks import RequestBlock, TextPart
from frontend.openai.limits import CacheSalt, PositiveCount, Priority, Rank, Seed, TopK, TopP, Word

MIN_THINKING_TOKENS = 1024
TOOL_NAME = r"^[a-zA-Z0-9_-]{1,128}$"

ToolName = Annotated[str, Meta(pattern=TOOL_NAME)]


class Turn(msgspec.Struct, kw_only=True):
    """One message of a conversation. The last one may be the assistant's, and is then continued."""

    role: Literal["user", "assistant", "system"]
    content: str | list[RequestBlock]


class Tool(msgspec.Struct, kw_only=True):
    """A tool of the client's. Tools that Anthropic's own servers run are refused by their type."""

    type: Literal["custom"] | None = None
    name: ToolName
    description: str | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None


class AutoChoice(msgspec.Struct, kw_only=True, tag_field="type", tag="auto"):
    """The model may call tools."""

    disable_parallel_tool_use: bool | None = None


class AnyChoice(msgspec.Struct, kw_only=True, tag_field="type", tag="any"):
    """The model must call a tool."""

    disable_parallel_tool_use: bool | None = None


class NamedChoice(msgspec.Struct, kw_only=True, tag_field="type", tag="tool"):
    """The model must call this tool."""

    name: str
    disable_parallel_tool_use: bool | None = None


class NoChoice(msgspec.Struct, kw_only=True, tag_field="type", tag="none"):
    """The model may call no tool."""


ToolChoice = AutoChoice | AnyChoice | NamedChoice | NoChoice


class EnabledThinking(msgspec.Struct, kw_only=True, tag_field="type", tag="enabled"):
    """The model shall reason."""

    budget_tokens: Annotated[int, Meta(ge=MIN_THINKING_TOKENS)]
    """Not held to: `max_tokens` bounds reasoning and answer together."""
    display: Literal["summarized", "omitted"] | None = None
    """Nothing is summarized here; `omitted` leaves the reasoning out of the answer."""


class DisabledThinking(msgspec.Struct, kw_only=True, tag_field="type", tag="disabled"):
    """The model shall not reason; if it does all the same, the answer does not show it."""


class AdaptiveThinking(msgspec.Struct, kw_only=True, tag_field="type", tag="adaptive"):
    """The model reasons as its chat template has it, as where nothing is said."""

    display: Literal["summarized", "omitted"] | None = None


Thinking = EnabledThinking | DisabledThinking | AdaptiveThinking


class JsonFormat(msgspec.Struct, kw_only=True):
    """The JSON schema that the answer must follow."""

    type: Literal["json_schema"] = "json_schema"
    schema: dict[str, Any]


class OutputConfig(msgspec.Struct, kw_only=True):
    """The form of the answer, and the effort put into it."""

    format: JsonFormat | None = None
    effort: str | None = None
    """What the chat template hears of as `reasoning_effort`."""


class PromptBody(msgspec.Struct, kw_only=True):
    """POST /v1/messages/count_tokens: what a prompt is made of."""

    model: str
    messages: Annotated[list[Turn], Meta(min_length=1)]
    system: str | list[TextPart] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None

    # Refused unless they ask for nothing.
    mcp_servers: Any = None
    container: Any = None
    output_format: Any = None


class MessageBody(PromptBody, kw_only=True):
    """POST /v1/messages."""

    max_tokens: PositiveCount
    stream: bool | None = None
    stop_sequences: list[Word] | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None

    seed: Seed | None = None
    priority: Priority | None = None
    cache_salt: CacheSalt | None = None
    data_parallel_rank: Rank | None = None
