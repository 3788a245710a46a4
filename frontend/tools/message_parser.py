"""An answer's text to reasoning, content and calls."""

from frontend.reasoning.reasoning_parser import ReasoningParser
from frontend.tools.pieces import ContentPiece, Piece, joined
from frontend.tools.tool_parser import ToolParser


class MessageParser:
    """First the reasoning is taken out, then the calls of what is left; either may be left out."""

    def __init__(self, reasoning: ReasoningParser | None, tools: ToolParser | None) -> None:
        self._reasoning = reasoning
        self._tools = tools

    def feed(self, text: str) -> list[Piece]:
        """What is certain with this text."""
        if self._reasoning is None:
            return joined(self._find_calls(ContentPiece(text)))
        return self._split(self._reasoning.feed(text))

    def finish(self) -> list[Piece]:
        """What was held back, at the end."""
        pieces = self._split(self._reasoning.finish()) if self._reasoning is not None else []
        return joined([*pieces, *(self._tools.finish() if self._tools is not None else [])])

    def _split(self, pieces: list[Piece]) -> list[Piece]:
        return joined(part for piece in pieces for part in self._find_calls(piece))

    def _find_calls(self, piece: Piece) -> list[Piece]:
        if self._tools is None or not isinstance(piece, ContentPiece):
            return [piece]
        return self._tools.feed(piece.text)
