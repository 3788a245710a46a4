"""Where a JSON value ends, in a text that arrives piece by piece."""

import enum
import re

from frontend.tools.markers import JSON_WHITESPACE


class Progress(enum.Enum):
    """How far a reader has come."""

    MORE = enum.auto()
    DONE = enum.auto()
    BROKEN = enum.auto()
    """The next character cannot belong to it."""


class _State(enum.Enum):
    VALUE = enum.auto()
    VALUE_OR_END = enum.auto()
    KEY = enum.auto()
    KEY_OR_END = enum.auto()
    COLON = enum.auto()
    COMMA_OR_END = enum.auto()
    STRING = enum.auto()
    ESCAPE = enum.auto()
    CODE_POINT = enum.auto()
    SCALAR = enum.auto()


_UNESCAPED = re.compile(r'[^"\\\x00-\x1f]*')
_SCALAR_CHARACTERS = frozenset("+-.0123456789Eaeflnrstu")
_SCALAR = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false|null")


class JsonScanner:
    """Reads one object, array or string as RFC 8259 has it, and stops right behind it."""

    def __init__(self) -> None:
        self.progress = Progress.MORE
        self._state = _State.VALUE
        self._closers: list[str] = []
        self._is_key = False
        self._num_hex_digits = 0
        self._scalar = ""

    def scan(self, text: str, start: int = 0) -> int:
        """Read on; the position behind what belongs to the value. `progress` says how it stands."""
        position = start
        while position < len(text) and self.progress is Progress.MORE:
            if self._state is _State.STRING:
                unescaped = _UNESCAPED.match(text, position)
                if unescaped is not None and unescaped.end() > position:
                    position = unescaped.end()
                    continue
            if not self._take(text[position]):
                self.progress = Progress.BROKEN
                break
            position += 1
        return position

    def _take(self, char: str) -> bool:
        """Whether the character can come next; if so, it has been read."""
        match self._state:
            case _State.STRING:
                return self._in_string(char)
            case _State.ESCAPE:
                return self._after_backslash(char)
            case _State.CODE_POINT:
                return self._in_code_point(char)
            case _State.SCALAR:
                return self._in_scalar(char)
            case _ if char in JSON_WHITESPACE:
                return True
            case _State.VALUE | _State.VALUE_OR_END:
                return self._begin_value(char)
            case _State.KEY | _State.KEY_OR_END:
                return self._begin_key(char)
            case _State.COLON:
                self._state = _State.VALUE
                return char == ":"
            case _State.COMMA_OR_END:
                return self._between(char)

    def _begin_value(self, char: str) -> bool:
        if char == "]" and self._state is _State.VALUE_OR_END:
            return self._close(char)
        if char == '"':
            self._state, self._is_key = _State.STRING, False
        elif char == "{":
            self._closers.append("}")
            self._state = _State.KEY_OR_END
        elif char == "[":
            self._closers.append("]")
            self._state = _State.VALUE_OR_END
        else:
            # A number alone would end nowhere.
            self._state, self._scalar = _State.SCALAR, char
            return bool(self._closers) and char in _SCALAR_CHARACTERS
        return True

    def _begin_key(self, char: str) -> bool:
        if char == "}" and self._state is _State.KEY_OR_END:
            return self._close(char)
        self._state, self._is_key = _State.STRING, True
        return char == '"'

    def _between(self, char: str) -> bool:
        if char != ",":
            return self._close(char)
        self._state = _State.KEY if self._closers[-1] == "}" else _State.VALUE
        return True

    def _close(self, char: str) -> bool:
        if self._closers.pop() != char:
            return False
        self._end_value()
        return True

    def _end_value(self) -> None:
        self._state = _State.COMMA_OR_END
        if not self._closers:
            self.progress = Progress.DONE

    def _in_string(self, char: str) -> bool:
        if char == "\\":
            self._state = _State.ESCAPE
        elif char != '"':
            return False
        elif self._is_key:
            self._state = _State.COLON
        else:
            self._end_value()
        return True

    def _after_backslash(self, char: str) -> bool:
        self._num_hex_digits = 0
        self._state = _State.CODE_POINT if char == "u" else _State.STRING
        return char in '"\\/bfnrtu'

    def _in_code_point(self, char: str) -> bool:
        self._num_hex_digits += 1
        if self._num_hex_digits == 4:
            self._state = _State.STRING
        return char in "0123456789abcdefABCDEF"

    def _in_scalar(self, char: str) -> bool:
        if char in _SCALAR_CHARACTERS:
            self._scalar += char
            return True
        self._end_value()
        return _SCALAR.fullmatch(self._scalar) is not None and (
            char in JSON_WHITESPACE or self._between(char)
        )
