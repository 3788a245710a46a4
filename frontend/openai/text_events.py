"""Events of a stream that bring more text, and nothing else."""

import secrets
from collections.abc import Callable

import msgspec

from frontend.openai.sse import OPENAI_EVENTS

_encoder = msgspec.json.Encoder()
_PLACE = secrets.token_hex(16)
"""Stands for the text where an event is made beforehand; in nothing else that is in one."""
_PLACE_IN_JSON = _encoder.encode(_PLACE)


class TextEvents:
    """The events of one answer whose chunks differ in their text alone.

    What is around the text is encoded once for each choice, so that a token costs no objects. The
    bytes are those that the encoded chunk would have.
    """

    def __init__(self) -> None:
        self._frames: dict[int, tuple[bytes, bytes]] = {}

    def event(self, index: int, text: str, make_chunk: Callable[[str], msgspec.Struct]) -> bytes:
        """The event with this text; `make_chunk` gives the choice's chunk with any text."""
        frame = self._frames.get(index)
        if frame is None:
            head, _, tail = OPENAI_EVENTS.event(make_chunk(_PLACE)).partition(_PLACE_IN_JSON)
            frame = self._frames[index] = (head, tail)
        return frame[0] + _encoder.encode(text) + frame[1]
