"""The part of a parser that reads one call."""

from typing import Protocol

from frontend.tools.json_scanner import Progress


class CallReader(Protocol):
    """Reads one call from its first character on. The same calls however the text is cut."""

    progress: Progress
    name: str | None
    """The function, as soon as it is certain that this is a call."""

    def read(self, text: str) -> int:
        """Read on; how many characters belong to the call. `progress` says how it stands."""
        ...

    def take_arguments(self) -> str:
        """JSON text of the arguments that came since the last time; none before there is a name."""
        ...
