"""A small HTTP server that answers completions as a test tells it to."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

METRICS = """\
# HELP quadriga_generation_tokens_total Output tokens.
# TYPE quadriga_generation_tokens_total counter
quadriga_generation_tokens_total{{engine="0",model_name="tiny"}} {tokens}.0
quadriga_generation_tokens_total{{engine="1",model_name="tiny"}} 7.0
"""


@dataclass
class ScriptedServer:
    """Streams `events` for each completion, and counts their tokens as a server would."""

    events: Sequence[str]
    status: int = 200
    breaks_off: bool = False
    """Close the connection after the events, in the middle of the chunked body."""
    port: int = 0
    tokens_served: int = 100
    bodies: list[dict[str, Any]] = field(default_factory=list)
    most_in_flight: int = 0
    _in_flight: int = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ScriptedServer"]:
        """Serve on a free port while the block runs."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line[15:]) for line in head.split("\r\n") if line.startswith("Content-Length:")
        )
        body = await reader.readexactly(length)
        path = head.split(" ")[1]
        if path == "/v1/models":
            _write_whole(writer, 200, json.dumps({"data": [{"id": "tiny"}]}))
        elif path == "/metrics":
            _write_whole(writer, 200, METRICS.format(tokens=self.tokens_served))
        elif self.status != 200:
            _write_whole(writer, self.status, self.events[0])
        else:
            self.bodies.append(json.loads(body))
            await self._stream(writer)
        await writer.drain()
        writer.close()

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in self.events:
            data = f"data: {event}\n\n".encode()
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await writer.drain()
        self.tokens_served += sum("token_ids" in event for event in self.events)
        if not self.breaks_off:
            writer.write(b"0\r\n\r\n")
        self._in_flight -= 1


def _write_whole(writer: asyncio.StreamWriter, status: int, body: str) -> None:
    head = f"HTTP/1.1 {status} Scripted\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body.encode())


def chunk(token_ids: list[int] | None = None, text: str = "a", finish: str | None = None) -> str:
    """One event of a text completion."""
    choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": finish}
    if token_ids is not None:
        choice["token_ids"] = token_ids
    return json.dumps({"id": "cmpl-1", "choices": [choice]})


def usage(completion_tokens: int, prompt_tokens: int = 4) -> str:
    """The last event with content: what the server counted."""
    counts = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return json.dumps({"id": "cmpl-1", "choices": [], "usage": counts})
