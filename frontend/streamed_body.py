"""The body of a streamed answer, piece by piece."""

from typing import Protocol, cast

from starlette.requests import ClientDisconnect
from starlette.types import Scope, Send

CHUNKS_EXTENSION = "quadriga.chunks"
"""Of an ASGI scope: the `ChunkWriter` of the connection, where it speaks HTTP/1.1."""


class ChunkWriter(Protocol):
    """A connection that takes pieces of a body directly.

    On the usual way a piece passes a dozen calls of middleware, Starlette, hypercorn and h11, which
    look at how an answer begins and ends, and change nothing of it in between but to frame it.
    For a piece as small as a token that costs more than all else.
    """

    @property
    def takes_chunks(self) -> bool:
        """Whether an answer has begun, and has not ended, whose body goes out in chunks."""
        ...

    def write_chunk_at_once(self, piece: bytes) -> bool:
        """Write a piece as a chunk of its own, if that needs no waiting.

        False, and nothing done, if no chunks are taken, or what was written before is still to be sent.
        """
        ...

    async def write_chunk(self, piece: bytes) -> None:
        """Write a piece as a chunk of its own, and wait while the client does not read.

        Raises OSError if the client was cut off.
        """
        ...


class StreamedBody:
    """Begins an answer, sends its pieces the shortest way there is, and ends it."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.has_begun = False
        """Whether the status line is out."""
        self._send = send
        extensions = scope.get("extensions") or {}
        self._writer = cast("ChunkWriter | None", extensions.get(CHUNKS_EXTENSION))

    async def begin(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head."""
        self.has_begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    def write_at_once(self, piece: bytes) -> bool:
        """Send a piece if that needs no waiting; False, and nothing done, if it does."""
        writer = self._writer
        return writer is not None and writer.write_chunk_at_once(piece)

    async def write(self, piece: bytes) -> None:
        """Send a piece, which is not empty. Raises ClientDisconnect if the client is gone."""
        assert piece, "an empty chunk would be the end"
        writer = self._writer
        if writer is None or not writer.takes_chunks:
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            return
        try:
            await writer.write_chunk(piece)
        except OSError as error:
            raise ClientDisconnect from error

    async def end(self) -> None:
        """Send the end."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
