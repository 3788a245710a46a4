"""Which events of a stream tell the usage."""

from msgspec import UNSET, UnsetType

from frontend.generation import Generation
from frontend.input_processor import PreparedRequest
from frontend.openai.responses import Usage
from frontend.openai.schemas import StreamOptions
from frontend.openai.usage import count_usage


class StreamUsage:
    """None unasked; asked for, in one last event; with vLLM's continuous option in every event."""

    def __init__(self, options: StreamOptions | None, prepared: PreparedRequest) -> None:
        self.is_wanted = options is not None and bool(options.include_usage)
        self.is_continuous = self.is_wanted and bool(options and options.continuous_usage_stats)
        self._prepared = prepared

    def on_chunk(self, generation: Generation) -> Usage | UnsetType | None:
        """The `usage` of an event that carries text."""
        if self.is_continuous:
            return count_usage(self._prepared, generation)
        return None if self.is_wanted else UNSET
