"""Calls between markers, in lists, or bare: one parser, told the syntax of a family of models."""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from frontend.tools.call_reader import CallReader
from frontend.tools.json_scanner import Progress
from frontend.tools.markers import split_at_marker, split_whitespace
from frontend.tools.pieces import CallArguments, CallBegins, ContentPiece, Piece, joined


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """How a family of models writes its calls."""

    reader_of: Callable[[str, bool], CallReader | None]
    """The reader of a call that begins with this character, in a list or not; None if none does."""
    opening: str = ""
    """The marker before a call, or before a list of calls."""
    closing: str = ""
    """The marker behind a call. Models forget it at times, so that it may be missing."""
    separator: str = ""
    """What stands between calls outside of lists."""
    takes_lists: bool = False
    is_bare: bool = False
    """Whether a call needs no marker where nothing but whitespace and calls came before."""


class _State(enum.Enum):
    CONTENT = enum.auto()
    OPENED = enum.auto()
    CALL = enum.auto()
    CLOSING = enum.auto()


class CallParser:
    """Holds text back only while it may yet be a call, or whitespace beside one."""

    def __init__(self, syntax: CallSyntax) -> None:
        self._syntax = syntax
        self._state = _State.CONTENT
        self._text = ""
        """What has arrived and is not read."""
        self._held = ""
        """What was read and is undecided."""
        self._num_hopeless = 0
        """How much of the held text is content if this is no call; the rest is then read again."""
        self._is_in_list = False
        self._has_content = False
        """Whether any came, since the last call if there was one."""
        self._reader: CallReader | None = None
        self._num_calls = 0
        self._pieces: list[Piece] = []

    def feed(self, text: str) -> list[Piece]:
        """What is certain with this text."""
        self._text += text
        self._advance()
        return self._take_pieces()

    def finish(self) -> list[Piece]:
        """What was held back, at the end."""
        if self._state is _State.OPENED and self._is_in_list and self._num_calls > 0:
            self._state = _State.CLOSING  # cut off behind a comma
        while self._state in (_State.OPENED, _State.CALL) and not self._has_begun:
            self._give_up()
            self._advance()
        if self._state is _State.CONTENT and (self._text or self._num_calls == 0):
            self._add_content(self._held + self._text)
        self._held = self._text = ""
        return self._take_pieces()

    def _take_pieces(self) -> list[Piece]:
        pieces, self._pieces = joined(self._pieces), []
        return pieces

    def _advance(self) -> None:
        while self._text and self._step():
            pass

    def _step(self) -> bool:
        """Read what can be decided; False if that takes more text."""
        match self._state:
            case _State.CONTENT:
                return self._read_content()
            case _State.OPENED:
                return self._read_opened()
            case _State.CALL:
                return self._read_call()
            case _State.CLOSING:
                return self._read_closing()

    def _read_content(self) -> bool:
        if not self._has_content:
            self._hold_whitespace()
            if not self._text:
                return False
            if self._syntax.is_bare and self._is_opening(self._text[0]):
                self._open(len(self._held) + 1)
                return True
        opening = self._syntax.opening
        before, is_found, rest = (
            split_at_marker(self._text, opening) if opening else (self._text, False, "")
        )
        if before:
            self._add_content(self._held + before)
            self._held = ""
        self._text = rest
        if is_found:
            self._held += opening
            self._open(len(self._held))
        return is_found

    def _read_opened(self) -> bool:
        self._hold_whitespace()
        if not self._text:
            return False
        if self._text[0] == "[" and self._syntax.takes_lists and not self._is_in_list:
            self._is_in_list = True
            self._held, self._text = self._held + "[", self._text[1:]
            return True
        self._reader = self._syntax.reader_of(self._text[0], self._is_in_list)
        if self._reader is None:
            self._give_up()
        else:
            self._state = _State.CALL
        return True

    def _read_call(self) -> bool:
        reader = self._reader
        assert reader is not None, "a call is read by its reader"
        had_begun = self._has_begun
        num_read = reader.read(self._text)
        self._held, self._text = self._held + self._text[:num_read], self._text[num_read:]
        if reader.name is None:
            if reader.progress is Progress.BROKEN:
                self._give_up()
            return bool(self._text)
        if not had_begun:
            self._pieces.append(CallBegins(self._num_calls, reader.name))
        self._held = ""
        self._pieces.append(CallArguments(self._num_calls, reader.take_arguments()))
        if reader.progress is not Progress.MORE:
            # Broken is as good as done: it has begun, and what follows is no part of it.
            self._num_calls += 1
            self._has_content = False
            self._reader = None
            self._state = _State.CLOSING
        return True

    def _read_closing(self) -> bool:
        self._hold_whitespace()
        if not self._text:
            return False
        closing = "]" if self._is_in_list else self._syntax.closing
        separator = "," if self._is_in_list else self._syntax.separator
        for mark in filter(None, (closing, separator)):
            if self._text.startswith(mark):
                self._text = self._text[len(mark) :]
                self._close(mark, is_last=mark == closing)
                return True
            if mark.startswith(self._text):
                return False
        self._close("", is_last=True)
        return True

    def _open(self, num_hopeless: int) -> None:
        self._state = _State.OPENED
        self._num_hopeless = num_hopeless

    def _close(self, mark: str, *, is_last: bool) -> None:
        """Go on behind a call. A separator is held: it is content if no call follows."""
        self._held = "" if is_last and mark else self._held + mark
        if self._is_in_list and not is_last:
            self._open(len(self._held))
            return
        self._is_in_list = False
        self._state = _State.CONTENT

    def _give_up(self) -> None:
        """It is no call: its first characters are content, and calls may begin in the others."""
        text = self._held + self._text
        self._add_content(text[: self._num_hopeless])
        self._text = text[self._num_hopeless :]
        self._held = ""
        self._reader = None
        self._is_in_list = False
        self._state = _State.CONTENT

    @property
    def _has_begun(self) -> bool:
        return self._reader is not None and self._reader.name is not None

    def _is_opening(self, char: str) -> bool:
        if char == "[" and self._syntax.takes_lists:
            return True
        return self._syntax.reader_of(char, False) is not None

    def _hold_whitespace(self) -> None:
        whitespace, self._text = split_whitespace(self._text)
        self._held += whitespace

    def _add_content(self, text: str) -> None:
        self._pieces.append(ContentPiece(text))
        self._has_content = self._has_content or bool(text)
