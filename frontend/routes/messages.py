"""POST /v1/messages and /v1/messages/count_tokens, in Anthropic's shapes."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from cluster.errors import RequestError
from frontend.anthropic.answer import MessageAnswer
from frontend.anthropic.objects import TokenCount
from frontend.anthropic.schemas import MessageBody, PromptBody
from frontend.anthropic.translation import chat_body, in_anthropics_words, prompt_body
from frontend.input_processor import Arrival, InputProcessor, PreparedRequest
from frontend.request_body import read_body
from frontend.routes.json_response import json_response
from frontend.routes.respond import respond
from frontend.services import services_of
from frontend.tokenizer import Tokenizer


async def create_message(request: Request) -> Response:
    """The assistant's turn of a conversation."""
    prepare = partial(_prepare, services_of(request).inputs)
    return await respond(request, MessageBody, prepare, _answer)


async def count_tokens(request: Request) -> Response:
    """The tokens that the prompt of the same message request would have."""
    services = services_of(request)
    body = await read_body(request, PromptBody)
    return json_response(await services.tokenizing.run(_count, services.inputs, body))


def _prepare(
    inputs: InputProcessor, body: MessageBody, arrival: Arrival, max_request_tokens: int | None
) -> PreparedRequest:
    try:
        return inputs.prepare_chat(chat_body(body), arrival, max_request_tokens)
    except RequestError as error:
        raise in_anthropics_words(error) from error


def _count(inputs: InputProcessor, body: PromptBody) -> TokenCount:
    try:
        return TokenCount(len(inputs.tokenize(prompt_body(body))))
    except RequestError as error:
        raise in_anthropics_words(error) from error


def _answer(_: MessageBody, prepared: PreparedRequest, tokenizer: Tokenizer) -> MessageAnswer:
    return MessageAnswer(prepared, tokenizer)
