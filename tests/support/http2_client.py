"""A client of HTTP/2 that does what it is told, also what well-behaved ones do not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events

SECONDS = 20.0


@dataclass
class Http2Stream:
    """What has come of one answer."""

    status: int = 0
    body: bytes = b""
    has_ended: bool = False
    is_reset: bool = False


@dataclass
class Http2Client:
    """One connection, its streams by number."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    streams: dict[int, Http2Stream] = field(default_factory=dict)
    is_ended_by_server: bool = False

    def __post_init__(self) -> None:
        self.connection = h2.connection.H2Connection(
            h2.config.H2Configuration(header_encoding=None)
        )
        self.connection.initiate_connection()
        self._flush()

    def send(
        self, method: str, path: str, body: bytes | None = None, *, is_whole: bool = True
    ) -> int:
        """Begin a request; of a body that is not whole, `send_more` is to come."""
        number = self.connection.get_next_available_stream_id()
        self.streams[number] = Http2Stream()
        headers = [
            (":method", method), (":path", path), (":scheme", "http"), (":authority", "t"),
            ("content-type", "application/json"),
        ]  # fmt: skip
        self.connection.send_headers(number, headers, end_stream=body is None)
        if body is not None:
            self.send_more(number, body, is_whole=is_whole)
        self._flush()
        return number

    def send_more(self, number: int, body: bytes, *, is_whole: bool = False) -> None:
        """Another piece of a body, which must fit into the server's window."""
        size = self.connection.max_outbound_frame_size
        while body:
            piece, body = body[:size], body[size:]
            self.connection.send_data(number, piece, end_stream=is_whole and not body)
        self._flush()

    def reset(self, number: int) -> None:
        """Give a stream up."""
        self.connection.reset_stream(number)
        self._flush()

    async def read_until(self, is_enough: Callable[[], bool]) -> None:
        """Take in what comes. Raises TimeoutError, or ConnectionError if the server ends it before."""
        async with asyncio.timeout(SECONDS):
            while not is_enough():
                data = await self.reader.read(1 << 16)
                if not data:
                    raise ConnectionError("the server closed the connection")
                for event in self.connection.receive_data(data):
                    self._take(event)
                self._flush()

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived():
                self.streams[event.stream_id].status = int(dict(event.headers)[b":status"])
            case h2.events.DataReceived():
                self.streams[event.stream_id].body += event.data
                self.connection.acknowledge_received_data(
                    event.flow_controlled_length, event.stream_id
                )
            case h2.events.StreamEnded():
                self.streams[event.stream_id].has_ended = True
            case h2.events.StreamReset():
                self.streams[event.stream_id].is_reset = True
            case h2.events.ConnectionTerminated():
                self.is_ended_by_server = True
            case _:
                pass

    def _flush(self) -> None:
        self.writer.write(self.connection.data_to_send())


@asynccontextmanager
async def http2_client(port: int) -> AsyncIterator[Http2Client]:
    """A connection without TLS, cut at the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Http2Client(reader, writer)
    finally:
        writer.transport.abort()
