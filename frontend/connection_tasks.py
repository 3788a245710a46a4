"""The tasks of one connection: hypercorn's, where the end of a request never waits for its body."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from hypercorn.asyncio.task_group import TaskGroup, _handle
from hypercorn.config import Config
from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, Scope

from frontend.streamed_body import CHUNKS_EXTENSION, ChunkWriter

Put = Callable[[ASGIReceiveEvent], Awaitable[None]]


class ConnectionTasks(TaskGroup):
    """Runs the application for each request.

    Hypercorn keeps the pieces of a body for the application, ten at most, and tells it of the end in
    the same queue. An application that answers before it has read them (401, 413) would wait there
    for itself, and the connection would stay for ever.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, chunks: ChunkWriter) -> None:
        """Applications that answer requests of HTTP/1.1 find `chunks` in their scope."""
        super().__init__(loop)
        self._chunks = chunks

    async def spawn_app(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Put:
        """Start the application; returns what tells it of the request."""
        if scope["type"] == "http" and scope["http_version"] == "1.1":
            cast("dict[str, Any]", scope["extensions"])[CHUNKS_EXTENSION] = self._chunks
        pieces: asyncio.Queue[ASGIReceiveEvent] = asyncio.Queue(config.max_app_queue_size)
        self.spawn(_handle, app, config, scope, pieces.get, send, _refuse, _refuse)
        return lambda event: _put(pieces, event)


def _refuse(*_: Any) -> Any:
    raise AssertionError("only WSGI applications need threads")


async def _put(pieces: "asyncio.Queue[ASGIReceiveEvent]", event: ASGIReceiveEvent) -> None:
    if event["type"] != "http.disconnect":
        await pieces.put(event)
        return
    while not pieces.empty():  # what nobody will read
        pieces.get_nowait()
    pieces.put_nowait(event)
