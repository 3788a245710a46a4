"""POST /v1/chat/completions and /v1/completions."""

import time

from starlette.requests import Request
from starlette.responses import Response

from frontend.generation_response import GenerationResponse
from frontend.input_processor import Arrival
from frontend.openai.chat_answer import ChatAnswer
from frontend.openai.completion_answer import CompletionAnswer
from frontend.openai.schemas import ChatBody, CompletionBody
from frontend.request_body import read_body
from frontend.services import services_of

MAX_TRACEPARENT_CHARACTERS = 128


async def create_chat_completion(request: Request) -> Response:
    """An answer to a conversation."""
    arrival = _arrival(request)
    services = services_of(request)
    body = await read_body(request, ChatBody)
    prepared = await services.tokenizing.run(
        services.inputs.prepare_chat, body, arrival, services.client.max_request_tokens()
    )
    answer = ChatAnswer(body, prepared, services.tokenizer)
    return GenerationResponse(
        services.client, services.tokenizer, prepared, answer, bool(body.stream)
    )


async def create_completion(request: Request) -> Response:
    """The continuations of one or several prompts."""
    arrival = _arrival(request)
    services = services_of(request)
    body = await read_body(request, CompletionBody)
    prepared = await services.tokenizing.run(
        services.inputs.prepare_completion, body, arrival, services.client.max_request_tokens()
    )
    answer = CompletionAnswer(body, prepared, services.tokenizer)
    return GenerationResponse(
        services.client, services.tokenizer, prepared, answer, bool(body.stream)
    )


def _arrival(request: Request) -> Arrival:
    return Arrival(
        arrived_at=time.monotonic(),
        pinned_rank=_pinned_rank(request.headers.get("x-data-parallel-rank")),
        traceparent=request.headers.get("traceparent", "")[:MAX_TRACEPARENT_CHARACTERS],
    )


def _pinned_rank(header: str | None) -> int | None:
    """The engine that the client asks for; what is no number is ignored, as by vLLM."""
    try:
        return int(header) if header is not None else None
    except ValueError:
        return None
