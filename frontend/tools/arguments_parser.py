"""An answer that is the arguments of one function, since the request named it."""

from frontend.tools.json_scanner import JsonScanner, Progress
from frontend.tools.markers import split_whitespace
from frontend.tools.pieces import CallArguments, CallBegins, ContentPiece, Piece


class ArgumentsParser:
    """The object that the answer begins with is a call; anything else is content."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._scanner = JsonScanner()
        self._held = ""
        """Whitespace, which is content only beside other content."""
        self._has_call = False

    def feed(self, text: str) -> list[Piece]:
        """What is certain with this text."""
        if self._has_call and self._scanner.progress is Progress.MORE:
            end = self._scanner.scan(text)
            return [CallArguments(0, text[:end]), *self._read_outside(text[end:])]
        return self._read_outside(text)

    def finish(self) -> list[Piece]:
        """Whitespace, if nothing else came."""
        return [] if self._has_call else self._content("")

    def _read_outside(self, text: str) -> list[Piece]:
        whitespace, rest = split_whitespace(text)
        self._held += whitespace
        if not rest:
            return []
        if rest[0] != "{" or self._has_call or self._scanner.progress is not Progress.MORE:
            return self._content(rest)
        self._held = ""
        self._has_call = True
        return [CallBegins(0, self._name), *self.feed(rest)]

    def _content(self, text: str) -> list[Piece]:
        if not self._has_call:
            self._scanner.progress = Progress.BROKEN  # what began otherwise holds no call
        held, self._held = self._held, ""
        return [ContentPiece(held + text)]
