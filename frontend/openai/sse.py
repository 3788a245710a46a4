"""Server-sent events: the frames of a stream."""

from typing import Protocol

import msgspec

from frontend.openai.errors import error_body

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # nginx would hold the stream back until its end
]

_encoder = msgspec.json.Encoder()


class EventForm(Protocol):
    """How the events of one API look on the wire. One per answer: it may count them."""

    waiting: bytes
    """Sent while nothing is there to be told: proxies see that the connection lives."""
    done: bytes
    """What follows the last event of an answer that ended well."""

    def event(self, chunk: msgspec.Struct) -> bytes:
        """One event that carries the chunk."""
        ...

    def error(self, error: Exception) -> bytes:
        """The last event of an answer that failed after it had begun."""
        ...


class OpenAIEvents:
    """Events without names, and a last one that is no JSON."""

    waiting = b": waiting\n\n"  # a comment, which clients skip
    done = b"data: [DONE]\n\n"

    def event(self, chunk: msgspec.Struct) -> bytes:
        """One event that carries the chunk."""
        return _data(_encoder.encode(chunk))

    def error(self, error: Exception) -> bytes:
        """The error object that OpenAI's clients raise."""
        return _data(error_body(error))


OPENAI_EVENTS = OpenAIEvents()


def named_event(name: str, json: bytes) -> bytes:
    """One event with a name, which carries this JSON."""
    return b"event: " + name.encode() + b"\n" + _data(json)


def _data(json: bytes) -> bytes:
    return b"data: " + json + b"\n\n"
