"""POST /tokenize and /detokenize, in vLLM's shapes."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from frontend.openai.decoding import convert_body
from frontend.openai.responses import DetokenizeResponse, TokenizeResponse
from frontend.openai.schemas import DetokenizeBody, TokenizeChatBody, TokenizeCompletionBody
from frontend.request_body import read_body
from frontend.routes.json_response import json_response
from frontend.services import services_of


async def tokenize(request: Request) -> Response:
    """The tokens of a text, or of messages as the chat template writes them."""
    services = services_of(request)
    fields = await read_body(request, dict[str, Any])
    body: TokenizeChatBody | TokenizeCompletionBody
    if fields.get("messages") is not None:
        body = convert_body(fields, TokenizeChatBody)
    else:
        body = convert_body(fields, TokenizeCompletionBody)
    token_ids = await services.tokenizing.run(services.inputs.tokenize, body)
    names = (
        [services.tokenizer.token_name(i) for i in token_ids] if body.return_token_strs else None
    )
    return json_response(
        TokenizeResponse(
            count=len(token_ids),
            max_model_len=services.model.max_model_len,
            tokens=token_ids,
            token_strs=names,
        )
    )


async def detokenize(request: Request) -> Response:
    """The text of tokens, special ones spelled out."""
    services = services_of(request)
    body = await read_body(request, DetokenizeBody)
    services.inputs.check_model(body.model)
    text = await services.tokenizing.run(services.inputs.detokenize, body.tokens)
    return json_response(DetokenizeResponse(text))
