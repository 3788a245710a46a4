"""A call written as `name{…}`, as newer Mistral models do."""

import re

from frontend.tools.json_scanner import JsonScanner, Progress

MAX_HEADER_CHARACTERS = 256
_HEADER_CHARACTERS = re.compile(r"[\w.\-\[\]]*")
_HEADER = re.compile(r"(?P<name>[\w.\-]+)(\[CALL_ID\]\w+)?(\[ARGS\])?")


class NamedCall:
    """The name, perhaps `[CALL_ID]` and an id, perhaps `[ARGS]`, and the arguments at once."""

    def __init__(self) -> None:
        self.progress = Progress.MORE
        self.name: str | None = None
        self._header = ""
        self._scanner = JsonScanner()
        self._arguments = ""

    def read(self, text: str) -> int:
        """Read on; how many characters belong to the call."""
        start = self._read_header(text) if self.name is None else 0
        if self.name is None:
            return start
        end = self._scanner.scan(text, start)
        self._arguments += text[start:end]
        self.progress = self._scanner.progress
        return end

    def take_arguments(self) -> str:
        """What came since the last time."""
        arguments, self._arguments = self._arguments, ""
        return arguments

    def _read_header(self, text: str) -> int:
        found = _HEADER_CHARACTERS.match(text)
        end = found.end() if found is not None else 0
        self._header += text[:end]
        is_too_long = len(self._header) > MAX_HEADER_CHARACTERS
        if end == len(text) and not is_too_long:
            return end
        header = _HEADER.fullmatch(self._header)
        if header is None or is_too_long or text[end] != "{":
            self.progress = Progress.BROKEN
        else:
            self.name = header["name"]
        return end
