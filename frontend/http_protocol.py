"""Hypercorn's HTTP/1.1 and HTTP/2, so that no stream of a connection can harm the others."""

import contextlib
from dataclasses import replace
from typing import Any, TypeVar

import h2.errors
import h2.events
import h2.exceptions
import h11
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.events import EndBody, Response
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.h11 import (
    H2CProtocolRequiredError,
    H2ProtocolAssumedError,
    H11Protocol,
)
from starlette.exceptions import HTTPException

from frontend.openai.errors import error_body

Protocol = TypeVar("Protocol", bound=H11Protocol | H2Protocol)

OK = 200
HEAD_TOO_LARGE = 431


class Http1(H11Protocol):
    """HTTP/1.1 with a limit for the head of a request, and with reasons for what is refused."""

    is_in_chunked_body = False
    """Whether an answer has begun whose body goes out in chunks, and has not ended."""
    _asked_method = b""

    async def stream_send(self, event: StreamEvent) -> None:
        """Send a part of the answer; where it comes before the body, the client hears of the end."""
        if isinstance(event, Response) and self.connection.their_state is h11.SEND_BODY:
            event = replace(event, headers=[*event.headers, (b"connection", b"close")])
        if isinstance(event, EndBody):
            self.is_in_chunked_body = False
        await super().stream_send(event)
        if isinstance(event, Response):
            self.is_in_chunked_body = self._is_chunked(event)

    def _is_chunked(self, head: Response) -> bool:
        """Whether h11 frames the body after this head in chunks; no to all that is not plain to see."""
        return (
            isinstance(self.connection, h11.Connection)
            and self.connection.their_http_version == b"1.1"
            and self.connection.our_state is h11.SEND_BODY
            and self._asked_method in (b"GET", b"POST")
            and head.status_code == OK
            and all(name.lower() != b"content-length" for name, _ in head.headers)
        )

    async def _create_stream(self, request: h11.Request) -> None:
        # h11 knows the limit, and heeds it only where a head comes in several pieces.
        num_bytes = len(request.method) + len(request.target)
        num_bytes += sum(len(name) + len(value) + 4 for name, value in request.headers)
        self._asked_method = request.method
        if num_bytes <= self.config.h11_max_incomplete_size:
            await super()._create_stream(request)
        else:
            await self._send_error_response(HEAD_TOO_LARGE)
            await self.send(Closed())

    async def _send_error_response(self, status_code: int) -> None:
        body = error_body(HTTPException(status_code, self._reason(status_code)))
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            *self.config.response_headers("h11"),
        ]
        await self._send_h11_event(h11.Response(status_code=status_code, headers=headers))
        await self._send_h11_event(h11.Data(data=body))
        await self._send_h11_event(h11.EndOfMessage())

    def _reason(self, status_code: int) -> str:
        if status_code == HEAD_TOO_LARGE:
            return f"The head is over the limit of {self.config.h11_max_incomplete_size} bytes."
        return "This is not a request of HTTP/1.1."


class Http2(H2Protocol):
    """HTTP/2, in which a request may be answered before its body has come.

    Hypercorn's own ends the whole connection, with all its streams, at the first piece of such a body.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connection.decoder.max_header_list_size = self.config.h2_max_header_list_size

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        # One by one: what an event does to a stream must be seen by the next.
        for event in events:
            if isinstance(event, h2.events.DataReceived) and event.stream_id not in self.streams:
                self._drop(event)
            else:
                await super()._handle_events([event])
        await self._flush()

    def _drop(self, event: h2.events.DataReceived) -> None:
        with contextlib.suppress(h2.exceptions.ProtocolError):
            self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if event.stream_id not in self.stream_buffers:  # its answer is out
                self.connection.reset_stream(event.stream_id, h2.errors.ErrorCodes.NO_ERROR)


class HttpProtocol(ProtocolWrapper):
    """Speaks whichever of the two the client speaks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        is_new = isinstance(self.protocol, H2Protocol)
        self.protocol = self._speaking(Http2 if is_new else Http1)

    @property
    def has_unread_body(self) -> bool:
        """Whether a client of HTTP/1.1 may still be sending what nobody will read."""
        if not isinstance(self.protocol, H11Protocol):
            return False
        state = self.protocol.connection.their_state
        return state is not None and str(state) in ("SEND_BODY", "ERROR")

    @property
    def is_in_chunked_body(self) -> bool:
        """Whether an answer is under way whose body goes out in chunks of HTTP/1.1."""
        return isinstance(self.protocol, Http1) and self.protocol.is_in_chunked_body

    async def handle(self, event: Event) -> None:
        """Take what the client sent."""
        try:
            await self.protocol.handle(event)
        except H2ProtocolAssumedError as error:
            self.protocol = self._speaking(Http2)
            await self.protocol.initiate()
            await self._go_on(error.data)
        except H2CProtocolRequiredError as error:
            self.protocol = protocol = self._speaking(Http2)
            await protocol.initiate(error.headers, error.settings)
            await self._go_on(error.data)

    async def _go_on(self, data: bytes) -> None:
        if data:
            await self.protocol.handle(RawData(data))

    def _speaking(self, language: type[Protocol]) -> Protocol:
        return language(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.state,
            self.ssl,
            self.client,
            self.server,
            self.send,
        )
