"""What all routes that generate do with a request: read, prepare, answer."""

import hashlib
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from cluster.errors import InvalidRequest
from frontend.generation_response import GenerationResponse
from frontend.input_processor import Arrival, PreparedRequest, RoutedBody
from frontend.middleware import key_of
from frontend.openai.answer import Answer
from frontend.request_body import read_body
from frontend.services import services_of
from frontend.tokenizer import Tokenizer

MAX_TRACEPARENT_CHARACTERS = 128
MAX_SESSION_CHARACTERS = 128


class StreamableBody(RoutedBody, Protocol):
    """What a body says, whatever API it is of."""

    stream: bool | None


AnyBody = TypeVar("AnyBody", bound=RoutedBody)
Body = TypeVar("Body", bound=StreamableBody)
Prepared = TypeVar("Prepared")


async def respond(
    request: Request,
    body_type: type[Body],
    prepare: Callable[[Body, Arrival, int | None], PreparedRequest],
    make_answer: Callable[[Body, PreparedRequest, Tokenizer], Answer],
) -> Response:
    """The answer to a body of this type. `prepare` runs in a thread that tokenizes."""
    services = services_of(request)
    body, prepared = await read_and_prepare(request, body_type, prepare)
    answer = make_answer(body, prepared, services.tokenizer)
    return GenerationResponse(
        services.client,
        services.tokenizer,
        prepared,
        answer,
        bool(body.stream),
        services.config.frontend.slow_reader_timeout,
    )


async def read_and_prepare(
    request: Request,
    body_type: type[AnyBody],
    prepare: Callable[[AnyBody, Arrival, int | None], Prepared],
) -> tuple[AnyBody, Prepared]:
    """The body, and what `prepare` makes of it in a thread that tokenizes, if there is room for it."""
    arrival = _arrival(request)
    services = services_of(request)
    body = await read_body(request, body_type)
    services.client.check_room(services.inputs.sketch(body, arrival))
    prepared = await services.tokenizing.run_for(
        arrival.tenant, prepare, body, arrival, services.client.max_request_tokens()
    )
    return body, prepared


def _arrival(request: Request) -> Arrival:
    return Arrival(
        arrived_at=time.monotonic(),
        pinned_rank=_pinned_rank(request.headers.get("x-data-parallel-rank")),
        traceparent=request.headers.get("traceparent", "")[:MAX_TRACEPARENT_CHARACTERS],
        tenant=_tenant(request),
        session=_session(request),
    )


def _tenant(request: Request) -> str:
    """A name for the API key; none where there are not two keys that would tell clients apart."""
    if len(set(services_of(request).config.frontend.api_key)) < 2:
        return ""
    return hashlib.blake2b(key_of(request.headers), digest_size=8).hexdigest()


def _session(request: Request) -> str:
    """The session that the client names. Too long a name is refused: cut, it would be another's."""
    session = request.headers.get("x-session-id", "")
    if len(session) > MAX_SESSION_CHARACTERS:
        raise InvalidRequest(
            f"X-Session-ID has {len(session)} characters, the limit is {MAX_SESSION_CHARACTERS}",
            "X-Session-ID",
        )
    return session


def _pinned_rank(header: str | None) -> int | None:
    """The engine that the client asks for; what is no number is ignored, as by vLLM."""
    try:
        return int(header) if header is not None else None
    except ValueError:
        return None
