"""The interface of everything that finds calls in a text."""

from typing import Protocol

from frontend.tools.pieces import CallArguments, CallBegins, Piece


class ToolParser(Protocol):
    """Tells the calls of one choice from its content. The same pieces however the text is cut.

    What is no call, or a malformed one, is content. Of the content no character is lost or doubled;
    markers, and whitespace that has nothing but calls on one side, belong to the calls.
    """

    def feed(self, text: str) -> list[Piece]:
        """What is certain with this text."""
        ...

    def finish(self) -> list[Piece]:
        """What was held back, at the end."""
        ...


class FirstCallOnly:
    """Another parser without its second and later calls."""

    def __init__(self, parser: ToolParser) -> None:
        self._parser = parser

    def feed(self, text: str) -> list[Piece]:
        """What is certain with this text."""
        return _without_later_calls(self._parser.feed(text))

    def finish(self) -> list[Piece]:
        """What was held back, at the end."""
        return _without_later_calls(self._parser.finish())


def _without_later_calls(pieces: list[Piece]) -> list[Piece]:
    return [
        piece
        for piece in pieces
        if not isinstance(piece, CallBegins | CallArguments) or piece.index == 0
    ]
