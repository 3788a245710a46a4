"""What an answer's text is made of."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    """Some of what the model thinks aloud."""

    text: str


@dataclass(frozen=True, slots=True)
class ContentPiece:
    """Some of the text that is for the reader."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegins:
    """The model calls a function; `index` counts the calls of one answer from 0."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """Some of the JSON text of a call's arguments; that call has begun."""

    index: int
    text: str


Piece = ReasoningPiece | ContentPiece | CallBegins | CallArguments


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The same pieces, with neighbours that continue each other made one, and empty ones left out."""
    result: list[Piece] = []
    for piece in pieces:
        if not isinstance(piece, CallBegins) and not piece.text:
            continue
        whole = _whole(result[-1], piece) if result else None
        if whole is None:
            result.append(piece)
        else:
            result[-1] = whole
    return result


def _whole(first: Piece, second: Piece) -> Piece | None:
    """Both in one, if the second continues the first."""
    match first, second:
        case ReasoningPiece(before), ReasoningPiece(after):
            return ReasoningPiece(before + after)
        case ContentPiece(before), ContentPiece(after):
            return ContentPiece(before + after)
        case CallArguments(index, before), CallArguments(same, after) if index == same:
            return CallArguments(index, before + after)
        case _:
            return None
