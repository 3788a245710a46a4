"""The HTTP answer that runs a generation, whole or as a stream."""

import logging

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cluster.errors import ClusterError
from frontend.answer_collector import AnswerCollector
from frontend.disconnect import while_connected
from frontend.engine_client import EngineClient
from frontend.event_sender import EventSender, resumption_headers
from frontend.generation import Generation
from frontend.input_processor import PreparedRequest
from frontend.openai.answer import Answer
from frontend.slow_readers import send_while_read
from frontend.streamed_body import StreamedBody
from frontend.tokenizer import Tokenizer

SECONDS_BETWEEN_SIGNS_OF_LIFE = 5.0

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
                choices = await while_connected(receive, AnswerCollector(generation).run())
                whole = self._answer.whole(generation, choices)
                response = Response(msgspec.json.encode(whole), media_type="application/json")
                response.raw_headers += resumption_headers(generation)
                await response(scope, receive, send)
        finally:
            generation.abort()

    async def _stream(self, generation: Generation, body: StreamedBody) -> None:
        sender = EventSender(generation, self._answer, body, self._seconds_between_signs_of_life)
        try:
            await sender.run()
        except ClientDisconnect:
            raise
        except Exception as error:
            if not body.has_begun:
                raise
            # The status line is out: the error is an event, and no [DONE] follows it.
            if not isinstance(error, ClusterError):
                logger.exception("%s failed in mid-stream", self._prepared.response_id)
            await sender.flush()
            await body.write(self._answer.events.error(error))
        await body.end()
