"""A call written as `{"name": "f", "arguments": {…}}`."""

import enum

import msgspec

from frontend.tools.json_scanner import JsonScanner, Progress
from frontend.tools.markers import JSON_WHITESPACE

ARGUMENT_MEMBERS = ("arguments", "parameters")
STRING_MEMBERS = ("name", "id", "type")
"""Any other member says that the object is something else than a call."""


class _State(enum.Enum):
    OPENING = enum.auto()
    KEY = enum.auto()
    COLON = enum.auto()
    VALUE = enum.auto()
    COMMA_OR_END = enum.auto()


class JsonCall:
    """A call is certain once its name is known and its arguments have begun, in either order.

    Arguments may also be a string that holds an object, as some models write them.
    """

    def __init__(self) -> None:
        self.progress = Progress.MORE
        self.name: str | None = None
        self._state = _State.OPENING
        self._scanner: JsonScanner | None = None
        self._scanned = ""
        self._member = ""
        self._members: dict[str, str] = {}
        self._arguments = ""
        self._has_arguments = False

    def read(self, text: str) -> int:
        """Read on; how many characters belong to the call."""
        position = 0
        while position < len(text) and self.progress is Progress.MORE:
            if self._scanner is not None:
                position = self._read_part(self._scanner, text, position)
            elif not self._take(text[position]):
                self.progress = Progress.BROKEN
            elif self._scanner is None:
                position += 1
        return position

    def take_arguments(self) -> str:
        """What came since the last time."""
        if self.name is None:
            return ""
        arguments, self._arguments = self._arguments, ""
        return arguments

    def _take(self, char: str) -> bool:
        """Whether the character can come next. Keys and values are left to a scanner, whole."""
        if char in JSON_WHITESPACE:
            return True
        match self._state:
            case _State.OPENING:
                self._state = _State.KEY
                return char == "{"
            case _State.KEY:
                self._scanner = JsonScanner()
                return char == '"'
            case _State.COLON:
                self._state = _State.VALUE
                return char == ":"
            case _State.VALUE:
                return self._begin_value(char)
            case _State.COMMA_OR_END:
                return self._between(char)

    def _begin_value(self, char: str) -> bool:
        self._scanner = JsonScanner()
        if char == "{" and self._member in ARGUMENT_MEMBERS:
            self._has_arguments = True
            self._reveal()
            return True
        return char == '"'

    def _between(self, char: str) -> bool:
        if char == ",":
            self._state = _State.KEY
            return True
        if char == "}" and self.name is not None:
            self.progress = Progress.DONE
            return True
        return False

    def _read_part(self, scanner: JsonScanner, text: str, position: int) -> int:
        end = scanner.scan(text, position)
        part = text[position:end]
        if self._state is _State.VALUE and self._is_argument_object:
            self._arguments += part
        else:
            self._scanned += part
        if scanner.progress is Progress.DONE:
            self._scanner = None
            is_fitting = self._end_part()
            self._scanned = ""
            if not is_fitting:
                self.progress = Progress.BROKEN
        elif scanner.progress is Progress.BROKEN:
            self.progress = Progress.BROKEN
        return end

    @property
    def _is_argument_object(self) -> bool:
        return self._has_arguments and self._member in ARGUMENT_MEMBERS

    def _end_part(self) -> bool:
        """Whether the key or value that has just been read can be in a call."""
        if self._state is _State.VALUE and self._is_argument_object:
            self._state = _State.COMMA_OR_END
            return True
        try:
            value = msgspec.json.decode(self._scanned, type=str)
        except msgspec.DecodeError:
            return False  # half a character, by its escape, which could not be sent on
        if self._state is _State.KEY:
            self._state = _State.COLON
            self._member = value
            return self._is_new_member()
        self._state = _State.COMMA_OR_END
        if self._member in ARGUMENT_MEMBERS:
            return self._take_text_as_arguments(value)
        self._members[self._member] = value
        self._reveal()
        return self._member != "name" or bool(value)

    def _is_new_member(self) -> bool:
        if self._member in ARGUMENT_MEMBERS:
            return not self._has_arguments
        return self._member in STRING_MEMBERS and self._member not in self._members

    def _take_text_as_arguments(self, text: str) -> bool:
        scanner = JsonScanner()
        end = scanner.scan(text)
        if not text.startswith("{") or scanner.progress is not Progress.DONE or end < len(text):
            return False
        self._arguments, self._has_arguments = text, True
        self._reveal()
        return True

    def _reveal(self) -> None:
        if self._has_arguments and self._members.get("name"):
            self.name = self._members["name"]
