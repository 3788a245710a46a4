"""One call of an ASGI application whose client may leave when it likes."""

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message


class AsgiCall:
    """A POST in progress: what was sent so far, and a client that can hang up."""

    def __init__(self, app: ASGIApp, path: str, body: bytes) -> None:
        self.sent: list[Message] = []
        self._left = asyncio.Event()
        self._sent_something = asyncio.Condition()
        self._request: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.1"},
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": [(b"content-type", b"application/json")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        self._task = asyncio.ensure_future(self._run(app, scope))

    @property
    def body(self) -> bytes:
        """The body as far as it was sent."""
        return b"".join(message.get("body", b"") for message in self.sent)

    async def wait_for(self, text: bytes) -> None:
        """Return as soon as the text is in the body."""
        async with self._sent_something:
            await self._sent_something.wait_for(lambda: text in self.body)

    def leave(self) -> None:
        """Hang up."""
        self._left.set()

    def cancel(self) -> None:
        """End the call as a server does that is shut down."""
        self._task.cancel()

    async def end(self) -> None:
        """Wait until the application has returned; raises what it raises."""
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    async def _run(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        await app(scope, self._receive, self._send)

    async def _receive(self) -> Message:
        if self._request:
            return self._request.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        async with self._sent_something:
            self.sent.append(message)
            self._sent_something.notify_all()
