"""The HTTP answer that runs a generation, whole or as a stream."""

import logging

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cluster.errors import ClusterError
from frontend.disconnect import while_connected
from frontend.engine_client import EngineClient
from frontend.generation import Generation, IndexedDelta
from frontend.input_processor import PreparedRequest
from frontend.openai.answer import Answer
from frontend.openai.sse import HEADERS
from frontend.output_processor import ChoiceDelta
from frontend.slow_readers import send_while_read
from frontend.streamed_body import StreamedBody
from frontend.tokenizer import Tokenizer

SECONDS_BETWEEN_SIGNS_OF_LIFE = 5.0
NOT_RESUMABLE_HEADER = (b"x-quadriga-resumable", b"false")
"""Tells that the answer is too long to be kept for another engine to go on with it."""

logger = logging.getLogger(__name__)


class GenerationResponse(Response):
    """Submits, answers, and aborts what is unfinished when the client leaves or anything fails.

    Errors before the first token are raised, to become an HTTP status; later ones end the stream.
    """

    def __init__(
        self,
        client: EngineClient,
        tokenizer: Tokenizer,
        prepared: PreparedRequest,
        answer: Answer,
        is_streamed: bool,
        slow_reader_seconds: float,
        seconds_between_signs_of_life: float = SECONDS_BETWEEN_SIGNS_OF_LIFE,
    ) -> None:
        self._client = client
        self._tokenizer = tokenizer
        self._prepared = prepared
        self._answer = answer
        self._is_streamed = is_streamed
        self._slow_reader_seconds = slow_reader_seconds
        self._seconds_between_signs_of_life = seconds_between_signs_of_life

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the generation to its end."""
        generation = Generation.submit(self._client, self._prepared, self._tokenizer)
        send = send_while_read(send, scope, self._slow_reader_seconds)
        try:
            if self._is_streamed:
                body = StreamedBody(scope, send)
                await while_connected(receive, self._stream(generation, body))
            else:
                whole = await while_connected(receive, self._collect(generation))
                response = Response(msgspec.json.encode(whole), media_type="application/json")
                response.raw_headers += _headers(generation)
                await response(scope, receive, send)
        finally:
            generation.abort()

    async def _collect(self, generation: Generation) -> msgspec.Struct:
        choices = [ChoiceDelta() for _ in generation.choices]
        while not generation.is_finished:
            news = await generation.next()
            assert news is not None, "only a wait with a time limit ends without news"
            choices[news.index].extend(news.delta)
        return self._answer.whole(generation, choices)

    async def _stream(self, generation: Generation, body: StreamedBody) -> None:
        try:
            await self._send_events(generation, body)
        except ClientDisconnect:
            raise
        except Exception as error:
            if not body.has_begun:
                raise
            # The status line is out: the error is an event, and no [DONE] follows it.
            if not isinstance(error, ClusterError):
                logger.exception("%s failed in mid-stream", self._prepared.response_id)
            await body.write(self._answer.events.error(error))
        await body.end()

    async def _send_events(self, generation: Generation, body: StreamedBody) -> None:
        form = self._answer.events
        while not generation.is_finished:
            news = await generation.next(self._seconds_between_signs_of_life)
            events = self._events(generation, news) if news is not None else [form.waiting]
            for event in events:
                if not body.has_begun:
                    await body.begin([*HEADERS, *_headers(generation)])
                await body.write(event)
        for chunk in self._answer.last_chunks(generation):
            await body.write(form.event(chunk))
        if form.done:
            await body.write(form.done)

    def _events(self, generation: Generation, news: IndexedDelta) -> list[bytes]:
        event = self._answer.events.event
        return [
            chunk if isinstance(chunk, bytes) else event(chunk)
            for chunk in self._answer.chunks(generation, news)
        ]


def _headers(generation: Generation) -> list[tuple[bytes, bytes]]:
    return [] if generation.is_resumable else [NOT_RESUMABLE_HEADER]
