"""Clients that leave, servers that stop, and streams in which nothing comes for a while."""

import json
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from cluster.config import ClusterConfig
from cluster.wire.sampling import FinishReason
from frontend.generation_response import GenerationResponse
from frontend.input_processor import Arrival, InputProcessor
from frontend.openai.chat_answer import ChatAnswer
from frontend.openai.schemas import ChatBody, ChatMessage
from tests.support.asgi_call import AsgiCall
from tests.support.frontend_app import ANSWER, MODEL, engine_that_says, make_app
from tests.support.scripted_engine import ScriptedEngine
from tests.support.tiny_tokenizer import tiny_tokenizer

PATH = "/v1/chat/completions"


def body(**fields: Any) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": "Hi"}], **fields}).encode()


def aborted_choices(engine: ScriptedEngine) -> list[str]:
    assert all(reason is FinishReason.ABORT for _, reason in engine.aborted)
    return sorted(request_id.rpartition("-")[2] for request_id, _ in engine.aborted)


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
        engine, tiny_tokenizer(), prepared, answer, True, seconds_between_signs_of_life=0.01
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
