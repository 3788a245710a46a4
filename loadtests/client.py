"""A streaming client of the OpenAI API that stamps every token."""

import asyncio
import time

import msgspec

from loadtests.completion_stream import CompletionStream, error_of_body
from loadtests.http_client import BrokenConnection, HttpClient
from loadtests.record import RequestRecord
from loadtests.sse import SseParser
from loadtests.workload import Ask


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class StreamingClient:
    """Sends one request at a time, any number of them concurrently; never raises for one of them."""

    def __init__(self, http: HttpClient, timeout_seconds: float) -> None:
        self._http = http
        self._timeout_seconds = timeout_seconds

    async def first_model(self) -> str:
        """The name of the first model that the server lists.

        Raises BrokenConnection if there is no such list.
        """
        status, body = await self._http.get("/v1/models")
        if status != 200:
            kind, detail = error_of_body(status, body)
            raise BrokenConnection(f"/v1/models: {kind}: {detail}")
        try:
            return msgspec.json.decode(body, type=_Models).data[0].id
        except (msgspec.MsgspecError, IndexError) as error:
            raise BrokenConnection(f"/v1/models lists no model: {error}") from error

    async def complete(self, ask: Ask, due_at: float) -> RequestRecord:
        """Send `ask`, read the whole answer, and say what happened."""
        record = RequestRecord(due_at)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._stream(ask, record)
        except BrokenConnection as error:
            record.error_kind, record.error_detail = "broken connection", str(error)
        except TimeoutError:
            record.error_kind = "timeout"
            record.error_detail = f"no whole answer in {self._timeout_seconds:g} s"
        record.ended_at = time.monotonic()
        return record

    async def _stream(self, ask: Ask, record: RequestRecord) -> None:
        async with self._http.request("POST", ask.path, ask.body) as response:
            if response.status != 200:
                body = await response.read()
                record.error_kind, record.error_detail = error_of_body(response.status, body)
                return
            parser = SseParser()
            stream = CompletionStream(record, ask.expected_output_tokens)
            async for piece in response.pieces:
                now = time.monotonic()
                for data in parser.feed(piece):
                    stream.add_event(data, now)
            stream.finish()
