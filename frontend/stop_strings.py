"""Stop strings in a text that arrives piece by piece."""

from typing import NamedTuple


class StopCheck(NamedTuple):
    """What one more piece of text brings."""

    text: str
    """Text that is certain to belong to the answer."""
    matched: str | None
    """The stop string that ended the answer, if one did."""


class StopStrings:
    """Finds the first stop string, and holds back only text that may be the beginning of one."""

    def __init__(self, stops: list[str], include_in_text: bool = False) -> None:
        self._stops = stops
        self._include_in_text = include_in_text
        self._longest_head = max(map(len, stops), default=1) - 1
        self._held = ""

    def push(self, piece: str, is_armed: bool = True) -> StopCheck:
        """Add a piece; while not armed, text passes unchecked and begins no match."""
        if not self._stops:
            return StopCheck(piece, None)
        text = self._held + piece
        if not is_armed:
            self._held = ""
            return StopCheck(text, None)
        match = self._first_match(text)
        if match is not None:
            start, stop = match
            self._held = ""
            end = start + len(stop) if self._include_in_text else start
            return StopCheck(text[:end], stop)
        num_held = self._num_held(text)
        released = len(text) - num_held
        self._held = text[released:]
        return StopCheck(text[:released], None)

    def flush(self) -> str:
        """What was held back, at the end of an answer that no stop string ended."""
        held, self._held = self._held, ""
        return held

    def _first_match(self, text: str) -> tuple[int, str] | None:
        # Where two match, the one that begins first ends the answer; then the first in the list.
        matches = [(start, index) for index, stop in enumerate(self._stops)
                   if (start := text.find(stop)) >= 0]  # fmt: skip
        if not matches:
            return None
        start, index = min(matches)
        return start, self._stops[index]

    def _num_held(self, text: str) -> int:
        """Length of the longest end of `text` that is a proper beginning of a stop string."""
        for length in range(min(self._longest_head, len(text)), 0, -1):
            end = text[-length:]
            if any(len(stop) > length and stop.startswith(end) for stop in self._stops):
                return length
        return 0
