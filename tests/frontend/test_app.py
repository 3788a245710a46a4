"""The HTTP surface as a whole: probes, keys, limits, errors nobody expected."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cluster.errors import NotServing, Overloaded
from cluster.telemetry.metrics import DIRECTORY_VARIABLE
from tests.support.frontend_app import ANSWER, engine_that_says, http_client

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
JSON = {"content-type": "application/json"}


async def test_health_tells_alive_from_ready() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        assert (await client.get("/health")).json() == {
            "status": "ok",
            "ready_engines": 1,
            "engines": 1,
            "draining_engines": 0,
            "parked_engines": 0,
        }
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")

        engine.num_engines = 3
        degraded = await client.get("/ready")
        assert (degraded.status_code, degraded.json()["status"]) == (200, "degraded")
        assert (degraded.json()["ready_engines"], degraded.json()["engines"]) == (1, 3)

        engine.num_ready_engines = 0
        alive = await client.get("/health")
        assert (alive.status_code, alive.json()["status"]) == (200, "unavailable")
        unready = await client.get("/ready")
        assert (unready.status_code, unready.headers["retry-after"]) == (503, "1")

        engine.are_all_engines_dead = True
        assert (await client.get("/health")).status_code == 503
        engine.are_all_engines_dead = False
        engine.num_ready_engines, engine.is_draining = 1, True
        assert (await client.get("/health")).status_code == 503
        assert (await client.get("/ready")).status_code == 503


async def test_version_and_cluster_are_told() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        assert set((await client.get("/version")).json()) == {"version"}
        assert (await client.get("/cluster")).json()["engines"][0]["rank"] == 0


async def test_the_prefix_cache_is_reset_in_every_engine_that_is_not_in_use() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        reset = await client.post("/reset_prefix_cache")
        assert (reset.status_code, reset.json()) == (200, {"engines": {"0": True}})
        await client.post("/v1/completions", json={"prompt": "x"})
        assert (await client.post("/reset_prefix_cache")).status_code == 503


async def test_models_are_listed_and_found_by_name() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        [card] = (await client.get("/v1/models")).json()["data"]
        assert (card["id"], card["max_model_len"]) == ("tiny", 128)
        assert (await client.get("/v1/models/tiny")).json() == card
        missing = await client.get("/v1/models/some/other")
        assert missing.status_code == 404
        assert missing.json()["error"]["code"] == "model_not_found"


async def test_unknown_paths_and_wrong_methods_are_answered_in_the_error_shape() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        missing = await client.get("/v1/nothing")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown_url")
        wrong = await client.get("/v1/chat/completions")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
        assert wrong.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/tokenize", "/v1/models", "/cluster", "/reset_prefix_cache"]
)
async def test_everything_but_probes_needs_a_key(path: str) -> None:
    async with http_client(engine_that_says(ANSWER), api_key=["secret", "other"]) as client:
        method = "GET" if path in ("/v1/models", "/cluster") else "POST"
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "secret"}):
            refused = await client.request(method, path, headers=headers)
            assert refused.status_code == 401
            assert refused.json()["error"]["code"] == "invalid_api_key"
            assert refused.headers["www-authenticate"] == "Bearer"
        for probe in ("/health", "/ready", "/version"):
            assert (await client.get(probe)).status_code == 200


async def test_any_of_the_keys_opens_and_the_scheme_may_be_lower_case() -> None:
    async with http_client(engine_that_says(ANSWER), api_key=["secret", "other"]) as client:
        for value in ("Bearer secret", "bearer other"):
            answer = await client.get("/v1/models", headers={"authorization": value})
            assert answer.status_code == 200


async def test_preflights_need_no_key_and_answers_are_open_to_browsers() -> None:
    async with http_client(engine_that_says(ANSWER), api_key=["secret"]) as client:
        headers = {"origin": "http://page", "access-control-request-headers": "authorization"}
        preflight = await client.options("/v1/chat/completions", headers=headers)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == "*"
        assert preflight.headers["access-control-allow-headers"] == "authorization"
        refused = await client.get("/v1/models", headers={"origin": "http://page"})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "*")


async def test_a_request_id_is_echoed_cut_and_never_a_key() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        for _ in range(2):
            answer = await client.post(
                "/v1/chat/completions", json=CHAT, headers={"x-request-id": "same" * 1000}
            )
            assert answer.headers["x-request-id"] == "same" * 32
        assert (await client.get("/health")).headers["x-request-id"].startswith("req-")
    assert len({request.request_id for request in engine.submitted}) == 2


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_body_that_is_not_called_json_is_415(content_type: str) -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        answer = await client.post(
            "/v1/chat/completions", content=b"{}", headers={"content-type": content_type}
        )
        assert answer.status_code == 415
        assert "application/json" in answer.json()["error"]["message"]


async def test_json_with_a_charset_is_json() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        answer = await client.post(
            "/tokenize",
            content=b'{"prompt": "Hi"}',
            headers={"content-type": "application/json; charset=utf-8"},
        )
        assert answer.status_code == 200


async def test_a_body_over_the_limit_is_413_whether_its_length_is_told_or_not() -> None:
    async def pieces() -> AsyncIterator[bytes]:  # httpx tells no length of a generator
        for _ in range(10):
            yield b" " * 1000

    async with http_client(engine_that_says(ANSWER), max_body_bytes=2048) as client:
        told = await client.post("/tokenize", content=b" " * 4096, headers=JSON)
        untold = await client.post("/tokenize", content=pieces(), headers=JSON)
        assert (told.status_code, untold.status_code) == (413, 413)
        assert "2048" in told.json()["error"]["message"]


async def test_while_no_engine_may_take_it_a_request_is_503_with_retry_after() -> None:
    engine = engine_that_says(ANSWER, submit_error=NotServing("the server is leaving", 7))
    async with http_client(engine) as client:
        for stream in (False, True):
            answer = await client.post("/v1/chat/completions", json={**CHAT, "stream": stream})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
            assert answer.json()["error"]["message"] == "the server is leaving"


async def test_a_refusal_for_lack_of_room_comes_before_the_prompt_is_tokenized() -> None:
    engine = engine_that_says(ANSWER, room_error=Overloaded("the queue is full", 7))
    async with http_client(engine) as client:
        far_too_long = {"prompt": "word " * 3000, "max_tokens": 5}
        answer = await client.post("/v1/completions", json=far_too_long)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
        engine.room_error = None
        answer = await client.post("/v1/completions", json=far_too_long)
        assert answer.status_code == 400


async def test_an_unexpected_error_is_a_500_that_tells_nothing_of_our_insides(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = engine_that_says(ANSWER, submit_error=RuntimeError("/secret/path"))
    async with http_client(engine) as client:
        answer = await client.post("/v1/chat/completions", json=CHAT)
        assert answer.status_code == 500
        assert "secret" not in answer.text
        assert answer.json()["error"]["code"] == "internal_error"
    assert "/secret/path" in caplog.text


async def test_metrics_are_those_of_the_whole_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, DIRECTORY_VARIABLE, str(tmp_path))
    async with http_client(engine_that_says(ANSWER)) as client:
        answer = await client.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain")


async def test_tokenize_counts_a_text_with_and_a_chat_without_added_tokens() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        text = (
            await client.post("/tokenize", json={"prompt": "Hi", "return_token_strs": True})
        ).json()
        assert (text["tokens"][0], text["token_strs"][0]) == (0, "<|bos|>")
        assert text["count"] == len(text["tokens"])
        assert text["max_model_len"] == 128
        bare = await client.post("/tokenize", json={"prompt": "Hi", "add_special_tokens": False})
        assert bare.json()["tokens"] == text["tokens"][1:]

        chat = (await client.post("/tokenize", json=CHAT)).json()
        whole = (await client.post("/detokenize", json={"tokens": chat["tokens"]})).json()
        assert whole["prompt"] == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        answer = await client.post("/v1/chat/completions", json=CHAT)
        assert answer.json()["usage"]["prompt_tokens"] == chat["count"]


async def test_detokenize_refuses_what_is_no_token() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        for token_id in (-1, 10**12):
            answer = await client.post("/detokenize", json={"tokens": [token_id]})
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tokens")
