"""The map from errors to HTTP answers."""

import json

import pytest
from starlette.exceptions import HTTPException

from cluster.errors import (
    ClusterError,
    ContextLengthExceeded,
    DecodeError,
    EngineFailed,
    InvalidRequest,
    ModelNotFound,
    NotServing,
    RequestError,
    ServiceError,
    Unauthorized,
)
from frontend.openai.errors import error_body, error_kind, error_response


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidRequest("no", "n"), 400, None),
        (ContextLengthExceeded("no", "prompt"), 400, "context_length_exceeded"),
        (Unauthorized("no"), 401, "invalid_api_key"),
        (ModelNotFound("no", "model"), 404, "model_not_found"),
        (HTTPException(413, "no"), 413, "request_too_large"),
        (EngineFailed("no"), 500, "engine_failed"),
        (NotServing("no"), 503, "not_serving"),
    ],
)
def test_each_error_has_its_status_and_its_words(error: Exception, status: int, code: str) -> None:
    response = error_response(error, "/v1/completions")
    assert response.status_code == status
    told = json.loads(bytes(response.body))["error"]
    assert (told["message"], told["code"]) == ("no", code)
    assert told["param"] == getattr(error, "param", None)
    assert set(told) == {"message", "type", "param", "code"}


def test_every_error_that_a_client_may_cause_or_meet_is_in_the_map() -> None:
    leaves = [*RequestError.__subclasses__(), *ServiceError.__subclasses__()]
    for leaf in leaves:
        assert error_kind(leaf("no")).code != "internal_error", leaf


@pytest.mark.parametrize("error", [ValueError("/home/me"), DecodeError("/home/me")])
def test_errors_that_are_not_for_clients_tell_nothing(error: Exception) -> None:
    assert error_kind(error).status == 500
    assert b"/home/me" not in error_body(error)


def test_a_refusal_for_now_says_when_to_come_back() -> None:
    assert error_response(NotServing("no", 9), "/").headers["retry-after"] == "9"
    assert error_response(NotServing("no"), "/").headers["retry-after"] == "1"


def test_lone_surrogates_in_an_error_can_be_sent() -> None:
    told = json.loads(error_body(InvalidRequest("got \ud83d", "\udc00")))["error"]
    assert (told["message"], told["param"]) == ("got \ufffd", "\ufffd")


def test_an_error_does_not_send_back_megabytes() -> None:
    assert len(error_body(ModelNotFound("x" * 10**6, "model"))) < 2000


def test_the_root_of_the_tree_is_an_error_of_ours() -> None:
    assert error_kind(ClusterError("x")).status == 500
