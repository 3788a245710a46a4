"""C17: a stream says that it must not be held back, and each event is on its way as it comes.

llama.cpp#20872, koboldcpp#1168, xagent#1358.
"""

import asyncio
import json

import httpx
import pytest

from tests.support.asgi_call import AsgiCall
from tests.support.frontend_app import ANSWER, engine_that_says, make_app
from tests.support.ways import WAYS, Way, name_of

STREAMS = [way for way in WAYS if way.is_streamed]
each_stream = pytest.mark.parametrize("way", STREAMS, ids=name_of)


@each_stream
async def test_the_headers_keep_proxies_from_buffering(way: Way, client: httpx.AsyncClient) -> None:
    answer = await client.post(way.path, json=way.body(), headers={"accept-encoding": "gzip, br"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in answer.headers
    assert "content-length" not in answer.headers


@each_stream
async def test_each_event_is_a_write_of_its_own_that_waits_for_no_other(way: Way) -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=3)
    app = make_app(engine)
    async with app.router.lifespan_context(app):
        call = AsgiCall(app, way.path, json.dumps(way.body(max_tokens=8)).encode())
        async with asyncio.timeout(5):
            await engine.wait_until_holding()
            await call.wait_for(b"Hello")  # while the engine has not gone on
            assert b"[DONE]" not in call.body
            engine.release()
            await call.end()
        writes = [message["body"] for message in call.sent[1:-1]]
        assert writes[-1] == b"data: [DONE]\n\n"
        assert all(write.count(b"\n\n") == 1 and write.endswith(b"\n\n") for write in writes)
    await engine.close()


async def test_a_whole_answer_is_json_of_known_length(client: httpx.AsyncClient) -> None:
    for way in WAYS:
        if not way.is_streamed:
            answer = await way.send(client)
            assert answer.headers["content-type"] == "application/json"
            assert int(answer.headers["content-length"]) == len(answer.content)
