"""What the parsers found in an answer, as blocks: whole, or event by event."""

from collections.abc import Sequence

from frontend.anthropic.blocks import AnswerBlock, TextBlock, ThinkingBlock, ToolUseBlock
from frontend.anthropic.objects import (
    BlockContinued,
    BlockDelta,
    BlockStarted,
    BlockStopped,
    Event,
    InputJsonDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
)
from frontend.anthropic.partial_input import call_input
from frontend.tools.message_format import MessageFormat
from frontend.tools.pieces import CallArguments, CallBegins, ContentPiece, Piece, ReasoningPiece
from frontend.tools.tool_formats import openai_call_id


def whole_content(pieces: Sequence[Piece], message_format: MessageFormat) -> list[AnswerBlock]:
    """The blocks of a whole answer, whose neighbouring pieces are joined.

    They are those that a stream of it tells.
    """
    blocks: list[AnswerBlock] = []
    for piece in pieces:
        match piece:
            case ReasoningPiece(text):
                if message_format.shows_reasoning:
                    blocks.append(ThinkingBlock(thinking=text))
            case ContentPiece(text):
                blocks.append(TextBlock(text=text))
            case CallBegins(_, name):
                blocks.append(ToolUseBlock(id=_new_id(message_format), name=name, input={}))
            case CallArguments(_, text):
                call = blocks[-1]
                assert isinstance(call, ToolUseBlock), call
                call.input = call_input(text)
    return blocks


class ContentStream:
    """The blocks of one answer as they come: each is started, continued and stopped in its turn."""

    def __init__(self, message_format: MessageFormat) -> None:
        self.has_calls = False
        self._format = message_format
        self._num_blocks = 0
        self._open: AnswerBlock | None = None

    def push(self, piece: Piece) -> list[Event]:
        """The events that tell of a piece."""
        match piece:
            case ReasoningPiece(text):
                if not self._format.shows_reasoning:
                    return []
                return self._continue(ThinkingBlock(thinking=""), ThinkingDelta(text))
            case ContentPiece(text):
                return self._continue(TextBlock(text=""), TextDelta(text))
            case CallBegins(_, name):
                self.has_calls = True
                call = ToolUseBlock(id=_new_id(self._format), name=name, input={})
                return [*self.stop(), self._start(call)]
            case CallArguments(_, text):
                assert isinstance(self._open, ToolUseBlock), self._open
                return [self._more(InputJsonDelta(text))]

    def stop(self) -> list[Event]:
        """The end of the block that is open, if one is."""
        block, self._open = self._open, None
        if block is None:
            return []
        stopped = BlockStopped(index=self._num_blocks - 1)
        if isinstance(block, ThinkingBlock):
            return [self._more(SignatureDelta(block.signature)), stopped]
        return [stopped]

    def _continue(self, empty_block: TextBlock | ThinkingBlock, delta: BlockDelta) -> list[Event]:
        """More of the open block; if that is of another kind, of a new one."""
        if isinstance(self._open, type(empty_block)):
            return [self._more(delta)]
        return [*self.stop(), self._start(empty_block), self._more(delta)]

    def _start(self, block: AnswerBlock) -> BlockStarted:
        self._open = block
        self._num_blocks += 1
        return BlockStarted(index=self._num_blocks - 1, content_block=block)

    def _more(self, delta: BlockDelta) -> BlockContinued:
        return BlockContinued(index=self._num_blocks - 1, delta=delta)


def _new_id(message_format: MessageFormat) -> str:
    """A fresh id of a call; as Anthropic writes it, unless the chat template asks for another form."""
    call_id = message_format.new_call_id()
    if message_format.new_call_id is openai_call_id:
        return f"toolu_{call_id.removeprefix('call_')}"
    return call_id
