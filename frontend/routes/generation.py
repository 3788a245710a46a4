"""POST /v1/chat/completions and /v1/completions."""

from starlette.requests import Request
from starlette.responses import Response

from frontend.input_processor import PreparedRequest
from frontend.openai.chat_answer import ChatAnswer
from frontend.openai.completion_answer import CompletionAnswer
from frontend.openai.schemas import ChatBody, CompletionBody
from frontend.routes.respond import respond
from frontend.services import services_of
from frontend.tokenizer import Tokenizer


async def create_chat_completion(request: Request) -> Response:
    """An answer to a conversation."""
    prepare = services_of(request).inputs.prepare_chat
    return await respond(request, ChatBody, prepare, _chat_answer)


async def create_completion(request: Request) -> Response:
    """The continuations of one or several prompts."""
    prepare = services_of(request).inputs.prepare_completion
    return await respond(request, CompletionBody, prepare, CompletionAnswer)


def _chat_answer(body: ChatBody, prepared: PreparedRequest, tokenizer: Tokenizer) -> ChatAnswer:
    return ChatAnswer(body, prepared, tokenizer, prepared.message_format)
