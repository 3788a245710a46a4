"""Server-sent events: the frames of a stream."""

import msgspec

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # nginx would hold the stream back until its end
]
DONE = b"data: [DONE]\n\n"
WAITING = b": waiting\n\n"
"""A comment, which clients skip: proxies see that the connection lives."""

_encoder = msgspec.json.Encoder()


def event(chunk: msgspec.Struct) -> bytes:
    """One event that carries the chunk."""
    return raw_event(_encoder.encode(chunk))


def raw_event(json: bytes) -> bytes:
    """One event that carries this JSON."""
    return b"data: " + json + b"\n\n"
