"""Reasoning between two marks at the beginning of an answer: `<think>…</think>`."""

import enum

from frontend.tools.markers import split_at_marker, split_whitespace
from frontend.tools.pieces import ContentPiece, Piece, ReasoningPiece, joined


class _State(enum.Enum):
    BEFORE = enum.auto()
    REASONING = enum.auto()
    CONTENT = enum.auto()


class ThinkParser:
    """`is_open` says that the reasoning needs no first mark, e.g. since the prompt ends with it.

    `is_over` says that there is none, since the prompt ends inside the content.
    """

    def __init__(
        self, first_mark: str, last_mark: str, *, is_open: bool = False, is_over: bool = False
    ) -> None:
        self._first_mark = first_mark
        self._last_mark = last_mark
        self._is_open = is_open
        self._state = _State.CONTENT if is_over else _State.BEFORE
        self._text = ""
        self.has_reasoning = False

    @property
    def is_over(self) -> bool:
        """Whether all that comes is content."""
        return self._state is _State.CONTENT

    def feed(self, text: str) -> list[Piece]:
        """What is certain with this text."""
        self._text += text
        pieces: list[Piece] = []
        if self._state is _State.BEFORE:
            self._begin()
        if self._state is _State.REASONING:
            before, is_found, self._text = split_at_marker(self._text, self._last_mark)
            pieces.append(ReasoningPiece(before))
            if is_found:
                self._state = _State.CONTENT
        if self._state is _State.CONTENT:
            pieces.append(ContentPiece(self._text))
            self._text = ""
        return joined(pieces)

    def finish(self) -> list[Piece]:
        """What was held back, at the end."""
        text, self._text = self._text, ""
        is_reasoning = self._state is _State.REASONING or self._is_open
        if self._state is not _State.CONTENT and is_reasoning:
            return joined([ReasoningPiece(text)])
        return joined([ContentPiece(text)])

    def _begin(self) -> None:
        """Decide what the answer begins with; whitespace before a mark belongs to the mark."""
        _, text = split_whitespace(self._text)
        if text.startswith(self._first_mark):
            self._text = text[len(self._first_mark) :]
            self._reason()
        elif not self._first_mark.startswith(text):
            if self._is_open:
                self._reason()
            else:
                self._state = _State.CONTENT

    def _reason(self) -> None:
        self._state = _State.REASONING
        self.has_reasoning = True
