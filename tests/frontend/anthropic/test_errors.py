"""Errors in Anthropic's shape."""

import json

import pytest
from starlette.exceptions import HTTPException

from cluster.errors import (
    Convicted,
    EngineFailed,
    Forbidden,
    InvalidRequest,
    ModelNotFound,
    NotServing,
    Overloaded,
    Unauthorized,
)
from frontend.anthropic.errors import is_anthropic_path
from frontend.openai.errors import error_body, error_response


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidRequest("no", "n"), 400, "invalid_request_error"),
        (Unauthorized("no"), 401, "authentication_error"),
        (Forbidden("no"), 403, "permission_error"),
        (ModelNotFound("no", "model"), 404, "not_found_error"),
        (HTTPException(413, "no"), 413, "request_too_large"),
        (HTTPException(415, "no"), 415, "invalid_request_error"),
        (Convicted("no"), 422, "invalid_request_error"),
        (Overloaded("no"), 429, "rate_limit_error"),
        (EngineFailed("no"), 500, "api_error"),
        (NotServing("no"), 503, "overloaded_error"),
    ],
)
def test_each_error_has_its_status_and_its_type(error: Exception, status: int, kind: str) -> None:
    response = error_response(error, "/v1/messages")
    assert response.status_code == status
    told = json.loads(bytes(response.body))
    assert told == {"type": "error", "error": {"type": kind, "message": "no"}}


def test_errors_that_nobody_expected_tell_nothing() -> None:
    assert b"secret" not in error_body(ValueError("secret"), "/v1/messages")


@pytest.mark.parametrize(
    ("path", "is_anthropics"),
    [
        ("/v1/messages", True),
        ("/v1/messages/count_tokens", True),
        ("/v1/messages2", False),
        ("/v1/chat/completions", False),
        ("", False),
    ],
)
def test_the_path_says_which_shape_is_expected(path: str, is_anthropics: bool) -> None:
    assert is_anthropic_path(path) is is_anthropics
