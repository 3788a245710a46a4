"""C21: with a key, every route needs it but probes, preflights and what only describes the API.

vllm#18893, vllm#58144, llama.cpp#6544, dphnAI/sonar#434, 9router#3659.
"""

from collections.abc import AsyncIterator

import httpx
import pytest

from frontend.app import ROUTES
from frontend.middleware import ADMIN_PREFIX
from tests.support.frontend_app import ANSWER, engine_that_says, http_client
from tests.support.scripted_engine import ScriptedEngine
from tests.support.ways import Way

MAY_BE_OPEN = {"/health", "/ready", "/version", "/metrics", "/openapi.json", "/docs"}
PATHS = sorted({route.path.replace("{model_id:path}", "tiny") for route in ROUTES})
CLOSED = [path for path in PATHS if path not in MAY_BE_OPEN]
WRONG = [
    {},
    {"authorization": "Bearer wrong"},
    {"authorization": "Bearer secre"},
    {"authorization": "Bearer secret2"},
    {"authorization": "Bearer"},
    {"authorization": "Bearer "},
    {"authorization": "secret"},
    {"authorization": "Basic secret"},
    {"x-api-key": "wrong"},
    {"authorization": "Bearer wrong", "x-api-key": "secret"},
]


@pytest.fixture
async def closed_client(engine: ScriptedEngine) -> AsyncIterator[httpx.AsyncClient]:
    async with http_client(engine, api_key=["secret", "other"]) as client:
        yield client


def test_all_that_generates_tokenizes_or_changes_anything_is_among_the_closed() -> None:
    known = {"/v1/chat/completions", "/v1/completions", "/v1/models", "/tokenize", "/detokenize"}
    assert known | {"/cluster", "/reset_prefix_cache"} <= set(CLOSED)


@pytest.mark.parametrize("path", CLOSED)
async def test_without_the_key_a_route_is_closed_by_every_method(
    closed_client: httpx.AsyncClient, engine: ScriptedEngine, path: str
) -> None:
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
        for headers in WRONG:
            answer = await closed_client.request(method, path, headers=headers)
            if path.startswith(ADMIN_PREFIX):
                assert answer.status_code in (401, 403), (method, headers)
                continue
            # One API has a form of its own for errors.
            assert answer.status_code == 401, (method, headers)
            assert answer.json()["error"]["message"]
            assert answer.headers["www-authenticate"] == "Bearer"
    assert not engine.submitted


@pytest.mark.parametrize(
    "path",
    [
        "/health/../v1/models",
        "//v1/models",
        "/v1/models/",
        "/v1/models?path=/health",
        "/V1/MODELS",
        "/%76%31/models",
        "/health%2f..%2fv1%2fmodels",
        "/v1/models#/health",
        "/invocations",
        "/healthz",
        "/metrics/",
    ],
)
async def test_no_other_spelling_of_a_path_opens_anything(
    closed_client: httpx.AsyncClient, path: str
) -> None:
    assert (await closed_client.get(path)).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer secret"},
        {"authorization": "bearer other"},
        {"authorization": "BEARER secret"},
        {"x-api-key": "secret"},
    ],
)
async def test_any_of_the_keys_opens_in_any_case_of_the_scheme(
    way: Way, closed_client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    answer = await closed_client.post(way.path, json=way.body(), headers=headers)
    assert answer.status_code == 200


async def test_probes_need_no_key(closed_client: httpx.AsyncClient) -> None:
    for path in ("/health", "/ready", "/version"):
        assert (await closed_client.get(path)).status_code == 200


@pytest.mark.parametrize("path", PATHS)
async def test_preflights_need_no_key(closed_client: httpx.AsyncClient, path: str) -> None:
    headers = {
        "origin": "http://page",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    answer = await closed_client.options(path, headers=headers)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "authorization" in answer.headers["access-control-allow-headers"]
    assert "POST" in answer.headers["access-control-allow-methods"]


async def test_a_refusal_can_be_read_by_a_page(closed_client: httpx.AsyncClient) -> None:
    answer = await closed_client.get("/v1/models", headers={"origin": "http://page"})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (401, "*")


async def test_without_keys_nothing_is_asked_for(way: Way) -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        headers = {"authorization": "Bearer whatever"}
        assert (await client.post(way.path, json=way.body(), headers=headers)).status_code == 200
