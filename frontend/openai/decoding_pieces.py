"""Large JSON bodies to structs, long lists of token ids piece by piece.

Whoever decodes JSON holds the interpreter's lock until it is done, and no stream goes on meanwhile: that is
20 to 30 ns a number, an eighth of a second for what fits into 30 MB. A text of that size takes a tenth of it.
"""

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from frontend.openai.decoding import decode_body
from frontend.openai.limits import TokenId, TokenIds

FIELDS = frozenset({"prompt", "input", "tokens"})
"""Where bodies have token ids, or lists of them."""
PIECE_BYTES = 256 * 1024

Body = TypeVar("Body")

_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NUMBERS_DECODER = msgspec.json.Decoder(list[TokenId])
_LISTS_DECODER = msgspec.json.Decoder(list[TokenIds])


def decode_large_body(data: bytes | bytearray, body_type: type[Body]) -> Body:
    """What `decode_body` gives and raises. Run it in a worker thread."""
    names = FIELDS.intersection(getattr(body_type, "__struct_fields__", ()))
    try:
        body = _decode_in_pieces(data, body_type, names)
    except (msgspec.MsgspecError, RecursionError):
        body = None  # what is wrong is said of the whole
    return decode_body(data, body_type) if body is None else body


def _decode_in_pieces(
    data: bytes | bytearray, body_type: type[Body], names: frozenset[str]
) -> Body | None:
    """The body; None if it has no long list of token ids. Raises MsgspecError if something is wrong."""
    if not names:
        return None
    fields = _FIELDS_DECODER.decode(data)
    long = [name for name in names & fields.keys() if _is_long_list(memoryview(fields[name]))]
    lists = {name: _token_ids(bytes(fields[name])) for name in long}
    if not lists:
        return None
    short = {name: msgspec.Raw(_short_list(some)) for name, some in lists.items()}
    body = msgspec.json.decode(msgspec.json.encode(fields | short), type=body_type)
    for name, token_ids in lists.items():
        setattr(body, name, token_ids)
    return body


def _is_long_list(data: memoryview) -> bool:
    return len(data) > PIECE_BYTES and data[0] == ord("[")


def _short_list(some: list[int] | list[list[int]]) -> bytes:
    """The JSON of such a list that is taken wherever this one is."""
    return b"[[0]]" if isinstance(some[0], list) else b"[0]"


def _token_ids(data: bytes) -> list[int] | list[list[int]]:
    """The list of token ids, or of such lists."""
    if data[1:].lstrip().startswith(b"["):
        return _lists(data)
    return _numbers(data)


def _numbers(data: bytes) -> list[int]:
    numbers: list[int] = []
    for piece in _pieces(data, b","):
        numbers += _NUMBERS_DECODER.decode(b"[%b]" % piece)
    if not numbers:
        raise msgspec.ValidationError("nothing but spaces")
    return numbers


def _lists(data: bytes) -> list[list[int]]:
    lists: list[list[int]] = []
    for piece in _pieces(data, b"],"):
        one = piece.strip()
        if len(piece) > PIECE_BYTES and one.startswith(b"[") and one.endswith(b"]"):
            lists.append(_numbers(one))
        else:
            lists += _LISTS_DECODER.decode(b"[%b]" % piece)
    return lists


def _pieces(data: bytes, mark: bytes) -> Iterator[bytes]:
    """What is inside of a list, cut at commas that end a mark: larger than a piece only if one item is."""
    start, end = 1, len(data) - 1
    while start < end:
        stop = min(start + PIECE_BYTES, end)
        if stop < end:
            found = data.rfind(mark, start, stop)
            found = data.find(mark, stop - 1) if found < 0 else found
            stop = end if found < 0 else found + len(mark) - 1
        yield data[start:stop]
        start = stop + 1
