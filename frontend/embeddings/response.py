"""The HTTP answer that has engines pool its inputs: all of them, or none."""

import asyncio
from collections.abc import Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cluster.errors import EngineFailed
from cluster.wire.messages import Blob
from frontend.disconnect import while_connected
from frontend.embeddings.answer import encode_answer
from frontend.embeddings.schemas import EmbeddingBody
from frontend.engine_client import submit_all
from frontend.request import GenerationRequest
from frontend.request_stream import RequestStream
from frontend.services import Services
from frontend.slow_readers import send_while_read

MAX_INLINE_BYTES = 64 * 1024
"""More vectors are encoded in a worker thread, since that takes longer than a token may wait."""


class EmbeddingResponse(Response):
    """Submits, answers, and aborts what is unfinished when the client leaves or anything fails."""

    def __init__(
        self, services: Services, body: EmbeddingBody, requests: Sequence[GenerationRequest]
    ) -> None:
        self._services = services
        self._as_base64 = body.encoding_format == "base64"
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for all vectors and send them. Errors are raised, to become an HTTP status."""
        streams = submit_all(self._services.client, self._requests)
        send = send_while_read(send, scope, self._services.config.frontend.slow_reader_timeout)
        try:
            answer = await while_connected(receive, self._answer(streams))
            await Response(answer, media_type="application/json")(scope, receive, send)
        finally:
            for stream in streams:
                stream.end()

    async def _answer(self, streams: Sequence[RequestStream]) -> bytes:
        vectors = await _all_vectors(streams)
        num_prompt_tokens = sum(len(request.prompt_token_ids) for request in self._requests)
        parts = (vectors, self._as_base64, self._services.model.name, num_prompt_tokens)
        if sum(len(vector.data) for vector in vectors) <= MAX_INLINE_BYTES:
            return encode_answer(*parts)
        tenant = self._requests[0].tenant
        return await self._services.tokenizing.run_for(tenant, encode_answer, *parts)


async def _all_vectors(streams: Sequence[RequestStream]) -> list[Blob]:
    """The vectors in order. Raises what the first that fails does, without waiting for the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_vector(stream)) for stream in streams]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


async def _vector(stream: RequestStream) -> Blob:
    """The vector of one input. Raises EngineFailed or NotServing if there is none."""
    while True:
        batch = await stream.next()
        assert batch is not None, "only a wait with a time limit ends without news"
        batch.check()
        if batch.finish_reason is None:
            continue
        if batch.vector is None:
            raise EngineFailed("the engine ended this request without a vector")
        stream.end(batch.finish_reason)
        return batch.vector
