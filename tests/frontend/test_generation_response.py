"""Clients that leave, servers that stop, and streams in which nothing comes for a while."""

import json
from typing import Any, Literal

import pytest
from starlette.types import Receive, Scope, Send

from cluster.config import ClusterConfig, EngineConfig
from cluster.wire.sampling import FinishReason
from frontend.app import build_app
from frontend.generation_response import GenerationResponse
from frontend.input_processor import Arrival, InputProcessor
from frontend.openai.chat_answer import ChatAnswer
from frontend.openai.schemas import ChatBody, ChatMessage
from tests.support.asgi_call import AsgiCall
from tests.support.frontend_app import (
    ANSWER,
    MODEL,
    client_of_app,
    engine_that_says,
    http_client,
    make_app,
)
from tests.support.scripted_engine import ScriptedEngine
from tests.support.tiny_tokenizer import tiny_tokenizer

PATH = "/v1/chat/completions"
JSON = {"Content-Type": "application/json"}


def body(**fields: Any) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": "Hi"}], **fields}).encode()


def aborted_choices(engine: ScriptedEngine) -> list[str]:
    assert set(engine.finish_reasons) <= {FinishReason.ABORT}
    return sorted(request_id.rpartition("-")[2] for request_id in engine.aborted)


@pytest.mark.parametrize("held_after", [0, 3])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_client_that_leaves_ends_each_unfinished_choice_exactly_once(
    streamed: bool, held_after: int
) -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=held_after)
    app = make_app(engine)
    async with app.router.lifespan_context(app):
        call = AsgiCall(app, PATH, body(stream=streamed, n=3))
        await engine.wait_until_holding()
        call.leave()
        await call.end()
        assert aborted_choices(engine) == ["0", "1", "2"]
    await engine.close()


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_that_is_cancelled_ends_its_requests_too(streamed: bool) -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=3)
    app = make_app(engine)
    async with app.router.lifespan_context(app):
        call = AsgiCall(app, PATH, body(stream=streamed))
        await engine.wait_until_holding()
        call.cancel()
        await call.end()
        assert aborted_choices(engine) == ["0"]
    await engine.close()


async def test_only_what_has_not_ended_is_aborted() -> None:
    engine = engine_that_says(ANSWER)
    app = make_app(engine)
    async with app.router.lifespan_context(app):
        call = AsgiCall(app, PATH, body(stream=True, n=2))
        await call.wait_for(b"[DONE]")
        call.leave()
        await call.end()
        assert not engine.aborted
    await engine.close()


async def test_a_client_that_left_before_its_body_came_costs_nothing() -> None:
    engine = engine_that_says(ANSWER)
    app = make_app(engine)

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def gone(scope: Scope, _: Receive, send: Send) -> None:
        await app(scope, receive, send)

    async with app.router.lifespan_context(app):
        call = AsgiCall(gone, PATH, b"")
        await call.end()
        assert not call.sent
        assert not engine.submitted


async def test_nothing_is_sent_before_the_first_token_and_comments_while_nothing_comes() -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=0)
    chat = ChatBody(messages=[ChatMessage(role="user", content="Hi")], stream=True)
    inputs = InputProcessor(ClusterConfig(), MODEL, tiny_tokenizer())
    prepared = inputs.prepare_chat(chat, Arrival(0.0), None)
    answer = ChatAnswer(chat, prepared, tiny_tokenizer())
    response = GenerationResponse(
        engine, tiny_tokenizer(), prepared, answer, True, 60.0, seconds_between_signs_of_life=0.01
    )
    call = AsgiCall(response, PATH, b"")
    await engine.wait_until_holding()
    assert not call.sent
    await call.wait_for(b": waiting\n\n: waiting\n\n")
    engine.release()
    await call.wait_for(b"[DONE]")
    await call.end()
    assert call.body.count(b"data: [DONE]") == 1
    assert call.sent[-1]["more_body"] is False
    await engine.close()


async def test_every_event_is_written_by_itself() -> None:
    engine = engine_that_says(ANSWER, tokens_per_batch=2)
    app = make_app(engine)
    async with app.router.lifespan_context(app):
        call = AsgiCall(app, PATH, body(stream=True, n=2))
        await call.wait_for(b"[DONE]")
        await call.end()
        writes = [message["body"] for message in call.sent[1:-1]]
        assert all(write.count(b"\n\n") == 1 and write.endswith(b"\n\n") for write in writes)
    await engine.close()


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("is_resumable", [False, True])
async def test_an_answer_that_cannot_move_says_so(streamed: bool, is_resumable: bool) -> None:
    engine = engine_that_says(ANSWER, is_resumable=is_resumable)
    async with http_client(engine) as client:
        answer = await client.post(PATH, content=body(stream=streamed), headers=JSON)
        assert answer.headers.get("x-quadriga-resumable") == (None if is_resumable else "false")


async def test_requests_are_told_apart_by_a_name_for_their_key_and_not_by_the_key() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine, api_key=["first", "second"]) as client:
        for key in ("Bearer first", "bearer  first ", "Bearer second"):
            headers = JSON | {"Authorization": key}
            assert (await client.post(PATH, content=body(n=2), headers=headers)).status_code == 200
    tenants = [request.tenant for request in engine.submitted]
    assert len(set(tenants[:4])) == 1
    assert tenants[0] not in tenants[4:]
    assert not any("first" in tenant or tenant == "" for tenant in tenants)


async def test_without_keys_all_requests_are_of_one_tenant_whatever_they_send() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        await client.post(PATH, content=body(), headers=JSON | {"Authorization": "Bearer me"})
    assert engine.submitted[0].tenant == ""


@pytest.mark.parametrize("engine_kind", ["model", "simulated"])
async def test_a_simulated_model_says_so(engine_kind: Literal["model", "simulated"]) -> None:
    config = ClusterConfig(engine=EngineConfig(engine=engine_kind))
    app = build_app(config, MODEL, tiny_tokenizer(), engine_that_says(ANSWER))
    async with client_of_app(app) as client:
        card = (await client.get("/v1/models")).json()["data"][0]
        assert card == (await client.get(f"/v1/models/{card['id']}")).json()
    assert card.get("simulated", False) is (engine_kind == "simulated")
    assert card["owned_by"] == "quadriga"
