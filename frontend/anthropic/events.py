"""How the events of a stream look on the wire."""

import msgspec

from frontend.anthropic.errors import MESSAGES_PATH
from frontend.anthropic.objects import Ping
from frontend.openai.errors import error_body
from frontend.openai.sse import named_event

_encoder = msgspec.json.Encoder()


class AnthropicEvents:
    """Events named after their type; the last one of an answer that ended well is `message_stop`."""

    done = b""

    def __init__(self) -> None:
        self.waiting = self.event(Ping())

    def event(self, chunk: msgspec.Struct) -> bytes:
        """One event that carries the chunk."""
        return named_event(str(chunk.__struct_config__.tag), _encoder.encode(chunk))

    def error(self, error: Exception) -> bytes:
        """The error object that Anthropic's clients raise."""
        return named_event("error", error_body(error, MESSAGES_PATH))


ANTHROPIC_EVENTS = AnthropicEvents()
