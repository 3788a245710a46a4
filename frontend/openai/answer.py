"""The form of an answer: what a route gives to the response that runs the generation."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from frontend.generation import Generation, IndexedDelta
from frontend.openai.sse import EventForm
from frontend.output_processor import ChoiceDelta


class Answer(Protocol):
    """Turns the news of a generation into the objects of one API. One per request."""

    @property
    def events(self) -> EventForm:
        """How its chunks are framed."""
        ...

    def whole(self, generation: Generation, choices: list[ChoiceDelta]) -> msgspec.Struct:
        """The answer that is not streamed; `choices` hold everything."""
        ...

    def chunks(
        self, generation: Generation, news: IndexedDelta
    ) -> Sequence[msgspec.Struct | bytes]:
        """The events that tell this news, none if there is nothing a client would see.

        What is bytes is an event that has its frame already.
        """
        ...

    def last_chunks(self, generation: Generation) -> Sequence[msgspec.Struct]:
        """The events after all news: for OpenAI's, the one that tells the usage, if it was asked for."""
        ...
