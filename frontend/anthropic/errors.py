"""Errors in Anthropic's shape."""

from typing import Literal

import msgspec

MESSAGES_PATH = "/v1/messages"
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class ErrorDetail(msgspec.Struct):
    """What went wrong; the message names the field."""

    type: str
    message: str


class ErrorBody(msgspec.Struct, kw_only=True):
    """The body of every answer that is not a success, and the last event of a stream that failed."""

    type: Literal["error"] = "error"
    error: ErrorDetail


def is_anthropic_path(path: str) -> bool:
    """Whether who asks for this path expects Anthropic's shapes."""
    return path == MESSAGES_PATH or path.startswith(f"{MESSAGES_PATH}/")


def anthropic_error(status: int, message: str) -> ErrorBody:
    """The error object of an answer with this status."""
    otherwise = "api_error" if status >= 500 else "invalid_request_error"
    return ErrorBody(error=ErrorDetail(_TYPES.get(status, otherwise), message))
