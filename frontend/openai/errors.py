"""The one map from errors to HTTP answers."""

from typing import NamedTuple

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cluster.errors import (
    ClusterError,
    ContextLengthExceeded,
    Convicted,
    EngineFailed,
    Forbidden,
    InvalidRequest,
    ModelNotFound,
    NotServing,
    OperationConflict,
    Overloaded,
    Unauthorized,
)
from frontend.anthropic.errors import anthropic_error, is_anthropic_path
from frontend.openai.responses import ErrorBody, ErrorDetail

DEFAULT_RETRY_AFTER_SECONDS = 1
MAX_TEXT_CHARACTERS = 1000
"""Errors quote what clients sent, which may be megabytes."""


class ErrorKind(NamedTuple):
    """How one class of errors is told to clients."""

    status: int
    type: str
    code: str | None


_INTERNAL = ErrorKind(500, "server_error", "internal_error")
_KINDS: dict[type[ClusterError], ErrorKind] = {
    ContextLengthExceeded: ErrorKind(400, "invalid_request_error", "context_length_exceeded"),
    InvalidRequest: ErrorKind(400, "invalid_request_error", None),
    Unauthorized: ErrorKind(401, "authentication_error", "invalid_api_key"),
    Forbidden: ErrorKind(403, "permission_error", "admin_key_required"),
    Convicted: ErrorKind(422, "invalid_request_error", "request_convicted"),
    OperationConflict: ErrorKind(409, "conflict_error", "operation_conflict"),
    ModelNotFound: ErrorKind(404, "invalid_request_error", "model_not_found"),
    EngineFailed: ErrorKind(500, "server_error", "engine_failed"),
    NotServing: ErrorKind(503, "service_unavailable", "not_serving"),
    Overloaded: ErrorKind(429, "rate_limit_error", "overloaded"),
}
_HTTP_CODES = {
    404: "unknown_url",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "request_too_large",
    415: "unsupported_media_type",
    431: "request_header_fields_too_large",
}


def error_kind(error: Exception) -> ErrorKind:
    """Status, type and code of any error."""
    if isinstance(error, HTTPException):
        return ErrorKind(
            error.status_code, "invalid_request_error", _HTTP_CODES.get(error.status_code)
        )
    return _KINDS.get(type(error), _INTERNAL) if isinstance(error, ClusterError) else _INTERNAL


def error_body(error: Exception, path: str = "") -> bytes:
    """The error as JSON, in OpenAI's shape, or in Anthropic's if the request was to such a path."""
    kind = error_kind(error)
    message = _encodable(_message(error, kind))
    if is_anthropic_path(path):
        return msgspec.json.encode(anthropic_error(kind.status, message))
    param = getattr(error, "param", None)
    return msgspec.json.encode(
        ErrorBody(
            ErrorDetail(
                message=message,
                type=kind.type,
                param=_encodable(param) if param is not None else None,
                code=kind.code,
            )
        )
    )


def _message(error: Exception, kind: ErrorKind) -> str:
    """What clients are told; of an unexpected error, nothing but that it happened."""
    if isinstance(error, HTTPException):
        return error.detail
    if kind is _INTERNAL:
        return "The server had an error while processing the request."
    return str(error)


def error_response(error: Exception, path: str) -> Response:
    """The HTTP answer to a request to this path that ended with this error."""
    kind = error_kind(error)
    headers = dict(getattr(error, "headers", None) or {})
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, (NotServing, Overloaded)):
        headers["Retry-After"] = str(error.retry_after_seconds or DEFAULT_RETRY_AFTER_SECONDS)
    return Response(error_body(error, path), kind.status, headers, media_type="application/json")


async def answer_error(request: Request, error: Exception) -> Response:
    """The application's handler of all errors that are expected."""
    return error_response(error, request.scope["path"])


def _encodable(text: str) -> str:
    """The text, cut to a sane length, with lone surrogates, which no encoder takes, replaced."""
    return text[:MAX_TEXT_CHARACTERS].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
