"""Texts cut at any place, as tokens cut them."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Protocol

from hypothesis import strategies as st

from frontend.tools.pieces import CallArguments, CallBegins, ContentPiece, Piece, joined


class Parser(Protocol):
    def feed(self, text: str) -> list[Piece]: ...

    def finish(self) -> list[Piece]: ...


def parse(parser: Parser, parts: Iterable[str]) -> list[Piece]:
    """All pieces of a text that arrives in these parts."""
    pieces = [piece for part in parts for piece in parser.feed(part)]
    return joined([*pieces, *parser.finish()])


def content_of(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, ContentPiece))


def calls_of(pieces: list[Piece]) -> list[tuple[str, str]]:
    """Names and arguments of the calls, which must come in order."""
    names = [piece.name for piece in pieces if isinstance(piece, CallBegins)]
    begun = [piece.index for piece in pieces if isinstance(piece, CallBegins)]
    assert begun == list(range(len(names)))
    arguments = [""] * len(names)
    for piece in pieces:
        if isinstance(piece, CallArguments):
            arguments[piece.index] += piece.text
    return list(zip(names, arguments, strict=True))


@st.composite
def cut(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> list[str]:
    """A text in parts, empty ones among them."""
    text = draw(texts)
    places = draw(st.lists(st.integers(0, len(text)), max_size=12))
    return [text[start:end] for start, end in pairwise([0, *sorted(places), len(text)])]


def cut_text(text: str) -> st.SearchStrategy[list[str]]:
    return cut(st.just(text))
