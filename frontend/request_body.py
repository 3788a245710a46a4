"""The bodies of HTTP requests, inside the limits."""

import asyncio
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from cluster.config import FrontendConfig
from frontend.openai.decoding import decode_body
from frontend.openai.decoding_pieces import decode_large_body
from frontend.services import services_of

MAX_INLINE_BYTES = 64 * 1024
"""Larger bodies are decoded in a worker thread, since that takes longer than a token may wait."""

Body = TypeVar("Body")


async def read_body(request: Request, body_type: type[Body]) -> Body:
    """The decoded body.

    Raises HTTPException 415 if it is not said to be JSON, 413 if it is over `max_body_bytes` and 408
    if it takes longer than `body_timeout`, and InvalidRequest, naming the field, if it is not what
    `body_type` says.
    """
    services = services_of(request)
    _check_content_type(request)
    data = await _read_in_time(request, services.config.frontend)
    if len(data) <= MAX_INLINE_BYTES:
        return decode_body(data, body_type)
    return await services.tokenizing.run(decode_large_body, data, body_type)


def _check_content_type(request: Request) -> None:
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    is_json = media_type == "application/json" or (
        media_type.startswith("application/") and media_type.endswith("+json")
    )
    if not is_json:
        raise HTTPException(
            415, f"The Content-Type must be application/json, not {content_type or 'absent'}."
        )


async def _read_in_time(request: Request, settings: FrontendConfig) -> bytearray:
    try:
        async with asyncio.timeout(settings.body_timeout):
            return await _read(request, settings.max_body_bytes)
    except TimeoutError:
        raise HTTPException(
            408, f"The body did not arrive within {settings.body_timeout:g} seconds."
        ) from None


async def _read(request: Request, limit_bytes: int) -> bytearray:
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limit_bytes:
        raise _too_large(limit_bytes)
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > limit_bytes:
            raise _too_large(limit_bytes)
    return data


def _too_large(limit_bytes: int) -> HTTPException:
    return HTTPException(413, f"The body is over the limit of {limit_bytes} bytes.")
