"""What clients get: answers, and the events of a stream."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from frontend.anthropic.blocks import AnswerBlock

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]


class OutputTokensDetails(msgspec.Struct):
    """Of the tokens generated, those that are the model's reasoning."""

    thinking_tokens: int


class Usage(msgspec.Struct, kw_only=True):
    """Tokens of a request so far. The prompt's are those of all three input counts together."""

    input_tokens: int
    """Without those found in an engine's prefix cache."""
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: Literal[0] = 0
    """Nothing is cached at an extra price."""
    output_tokens_details: OutputTokensDetails | UnsetType = UNSET
    """Set where reasoning is told apart."""


class Message(msgspec.Struct, kw_only=True, tag_field="type", tag="message"):
    """The assistant's turn."""

    id: str
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[AnswerBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: Usage


class TokenCount(msgspec.Struct):
    """The tokens of a prompt."""

    input_tokens: int


class TextDelta(msgspec.Struct, tag_field="type", tag="text_delta"):
    """More text."""

    text: str


class InputJsonDelta(msgspec.Struct, tag_field="type", tag="input_json_delta"):
    """More of the JSON text of a call's input."""

    partial_json: str


class ThinkingDelta(msgspec.Struct, tag_field="type", tag="thinking_delta"):
    """More reasoning."""

    thinking: str


class SignatureDelta(msgspec.Struct, tag_field="type", tag="signature_delta"):
    """The end of the reasoning."""

    signature: str


BlockDelta = TextDelta | InputJsonDelta | ThinkingDelta | SignatureDelta


class StopDelta(msgspec.Struct, kw_only=True):
    """Why the answer has ended."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageStarted(msgspec.Struct, tag_field="type", tag="message_start"):
    """The first event: the turn, with nothing in it."""

    message: Message


class Ping(msgspec.Struct, tag_field="type", tag="ping"):
    """A sign of life."""


class BlockStarted(msgspec.Struct, kw_only=True, tag_field="type", tag="content_block_start"):
    """A block follows; those of one turn are counted from 0."""

    index: int
    content_block: AnswerBlock


class BlockContinued(msgspec.Struct, kw_only=True, tag_field="type", tag="content_block_delta"):
    """More of a block."""

    index: int
    delta: BlockDelta


class BlockStopped(msgspec.Struct, kw_only=True, tag_field="type", tag="content_block_stop"):
    """A block is whole."""

    index: int


class MessageEnded(msgspec.Struct, kw_only=True, tag_field="type", tag="message_delta"):
    """All blocks are out; the usage is that of the whole request."""

    delta: StopDelta
    usage: Usage


class MessageStopped(msgspec.Struct, tag_field="type", tag="message_stop"):
    """The last event."""


Event = (
    MessageStarted
    | Ping
    | BlockStarted
    | BlockContinued
    | BlockStopped
    | MessageEnded
    | MessageStopped
)
