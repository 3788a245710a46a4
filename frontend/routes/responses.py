"""POST /v1/responses."""

from dataclasses import replace
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from cluster.errors import RequestError
from frontend.input_processor import Arrival, InputProcessor, PreparedRequest
from frontend.responses_api.answer import ResponseAnswer
from frontend.responses_api.renaming import renamed
from frontend.responses_api.schemas import ResponsesBody
from frontend.responses_api.translation import chat_body
from frontend.routes.respond import respond
from frontend.services import services_of


async def create_response(request: Request) -> Response:
    """An answer to input items. It is not stored."""
    prepare = partial(prepare_response, services_of(request).inputs)
    return await respond(request, ResponsesBody, prepare, ResponseAnswer)


def prepare_response(
    inputs: InputProcessor,
    body: ResponsesBody,
    arrival: Arrival,
    max_request_tokens: int | None,
) -> PreparedRequest:
    """The requests of a body. Raises RequestError naming what is wrong in this API's words."""
    chat = chat_body(body)
    try:
        prepared = inputs.prepare_chat(chat, arrival, max_request_tokens)
    except RequestError as error:
        raise renamed(error) from error
    _, _, unique = prepared.response_id.partition("-")
    return replace(prepared, response_id=f"resp_{unique}")
