"""The form of an answer: what a route gives to the response that runs the generation."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from frontend.generation import Generation, IndexedDelta
from frontend.output_processor import ChoiceDelta


class Answer(Protocol):
    """Turns the news of a generation into OpenAI objects. One per request."""

    def whole(self, generation: Generation, choices: list[ChoiceDelta]) -> msgspec.Struct:
        """The answer that is not streamed; `choices` hold everything."""
        ...

    def chunks(self, generation: Generation, news: IndexedDelta) -> Sequence[msgspec.Struct]:
        """The events that tell this news, none if there is nothing a client would see."""
        ...

    def last_chunk(self, generation: Generation) -> msgspec.Struct | None:
        """The event that tells the usage, if it was asked for."""
        ...
