"""Server-sent events out of bytes that arrive in any pieces."""


class SseParser:
    """Collects bytes and gives out the data of each event that is complete.

    Comments, which servers send to keep a connection alive, and fields other than `data` are
    skipped. Follows the parsing rules of the HTML standard, without the lone CR as a line end.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that `piece` completes, in order."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        events: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removesuffix(b"\r").removeprefix(b" "))
            elif line in {b"", b"\r"} and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events
