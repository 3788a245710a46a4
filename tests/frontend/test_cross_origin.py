"""What browsers are told: by default any page may ask, with settings only those that are named."""

from typing import Any

import httpx
import pytest

from tests.support.frontend_app import ANSWER, engine_that_says, http_client

PAGE, OTHER = "https://page.example", "https://other.example"
PATH = "/v1/completions"


async def preflight(origin: str, asked: str = "authorization", **settings: Any) -> httpx.Response:
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": asked,
    }
    async with http_client(engine_that_says(ANSWER), api_key=["secret"], **settings) as client:
        return await client.options(PATH, headers=headers)


async def answer(origin: str | None, **settings: Any) -> httpx.Response:
    headers = {"origin": origin} if origin is not None else {}
    async with http_client(engine_that_says(ANSWER), **settings) as client:
        return await client.post(PATH, json={"prompt": "Hi"}, headers=headers)


def allowed(response: httpx.Response) -> Any:
    return response.headers.get("access-control-allow-origin")


async def test_any_page_may_ask_by_default_and_no_key_is_needed_for_the_question() -> None:
    asked = await preflight(PAGE, "authorization, x-special")
    assert (asked.status_code, allowed(asked)) == (204, "*")
    assert asked.headers["access-control-allow-headers"] == "authorization, x-special"
    assert "POST" in asked.headers["access-control-allow-methods"]
    answered = await answer(PAGE)
    assert allowed(answered) == "*"
    assert "x-request-id" in answered.headers["access-control-expose-headers"]
    assert "vary" not in answered.headers


async def test_without_a_page_there_is_nothing_to_say() -> None:
    answered = await answer(None)
    assert not [name for name in answered.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", [PAGE, OTHER, PAGE.upper(), PAGE + ".evil.example", "null"])
async def test_only_pages_that_are_named_may_ask(origin: str) -> None:
    settings: dict[str, Any] = {"allowed_origins": [PAGE]}
    expected = PAGE if origin == PAGE else None
    asked, answered = await preflight(origin, **settings), await answer(origin, **settings)
    assert allowed(asked) == allowed(answered) == expected
    assert ("access-control-allow-methods" in asked.headers) == (expected is not None)
    assert answered.status_code == 200, "it is the browser that keeps it from the page"
    assert asked.headers["vary"] == answered.headers["vary"] == "Origin"


async def test_caches_learn_that_answers_differ_also_from_those_that_no_page_asked_for() -> None:
    assert (await answer(None, allowed_origins=[PAGE])).headers["vary"] == "Origin"


async def test_methods_and_headers_are_those_that_are_named() -> None:
    asked = await preflight(
        PAGE, "x-special", allowed_methods=["POST"], allowed_headers=["Authorization", "X-Own"]
    )
    assert asked.headers["access-control-allow-methods"] == "POST"
    assert asked.headers["access-control-allow-headers"] == "Authorization, X-Own"


@pytest.mark.parametrize("origin", [PAGE, OTHER])
async def test_credentials_are_for_pages_that_are_named(origin: str) -> None:
    settings: dict[str, Any] = {"allowed_origins": [PAGE], "allow_credentials": True}
    for response in (await preflight(origin, **settings), await answer(origin, **settings)):
        credentials = response.headers.get("access-control-allow-credentials")
        assert credentials == ("true" if origin == PAGE else None)
        assert allowed(response) != "*"


async def test_errors_are_shown_to_pages_too() -> None:
    async with http_client(engine_that_says(ANSWER), api_key=["secret"]) as client:
        refused = await client.post(PATH, json={}, headers={"origin": PAGE})
        assert (refused.status_code, allowed(refused)) == (401, "*")
