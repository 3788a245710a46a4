"""Events of a stream that bring more text, and nothing else."""

import secrets
from collections.abc import Callable

import msgspec

from frontend.generation import Generation
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

    def __init__(self, make_chunk: Callable[[Generation, int, str], msgspec.Struct]) -> None:
        """`make_chunk` gives the chunk of a choice with any text."""
        self._make_chunk = make_chunk
        self._frames: dict[int, tuple[bytes, bytes]] = {}

    def event(self, generation: Generation, index: int, text: str) -> bytes:
        """The event with this text of a choice."""
        frame = self._frames.get(index)
        if frame is None:
            event = OPENAI_EVENTS.event(self._make_chunk(generation, index, _PLACE))
            head, _, tail = event.partition(_PLACE_IN_JSON)
            frame = self._frames[index] = (head, tail)
        return frame[0] + _encoder.encode(text) + frame[1]
