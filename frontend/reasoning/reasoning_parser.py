"""The interface of everything that tells reasoning from content."""

from typing import Protocol

from frontend.tools.pieces import Piece


class ReasoningParser(Protocol):
    """Splits the text of one choice. The same pieces however the text is cut; only marks are left out."""

    @property
    def is_over(self) -> bool:
        """Whether all that comes is content."""
        ...

    @property
    def has_reasoning(self) -> bool:
        """Whether any reasoning has begun."""
        ...

    def feed(self, text: str) -> list[Piece]:
        """What is certain with this text: reasoning, content or both."""
        ...

    def finish(self) -> list[Piece]:
        """What was held back, at the end."""
        ...
