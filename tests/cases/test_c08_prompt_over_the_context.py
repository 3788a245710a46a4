"""C08: too long a prompt is told so that a client can shorten it and try again.

lmstudio-bug-tracker#2322, kronk#861, vllm#37011, TensorRT-LLM#19457, ik_llama.cpp#2420, llama.cpp#15780.
"""

import httpx

from tests.support.frontend_app import engine_that_says, http_client
from tests.support.scripted_engine import ScriptedEngine
from tests.support.ways import Way, check_refused

CODE = "context_length_exceeded"
WORDS = "This model's maximum context length is 128 tokens. However, "


async def num_prompt_tokens(client: httpx.AsyncClient, way: Way, text: str) -> int:
    field = {"messages": way.body(text)["messages"]} if way.is_chat else {"prompt": text}
    return int((await client.post("/tokenize", json=field)).json()["count"])


async def test_a_prompt_of_twice_the_context(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    text = "x " * 256
    message = check_refused(await way.send(client, text), way.prompt_field, CODE)
    assert message.startswith(WORDS)
    assert str(await num_prompt_tokens(client, way, text)) in message
    assert not engine.submitted
    await way.ask(client)


async def test_a_prompt_that_fits_without_its_answer(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    num_tokens = await num_prompt_tokens(client, way, "Hi")
    room = 128 - num_tokens
    message = check_refused(await way.send(client, max_tokens=room + 1), way.prompt_field, CODE)
    assert message.startswith(f"{WORDS}you requested 129 tokens ({num_tokens} in the ")
    assert not engine.submitted
    await way.ask(client, max_tokens=room)


async def test_one_long_prompt_among_short_ones_is_refused_for_all(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    if way.is_chat:
        answer = await way.send(client, "x " * 256, n=2)
    else:
        answer = await way.send(client, ["Hi", [5] * 128])
    check_refused(answer, way.prompt_field, CODE)
    assert not engine.submitted


async def test_what_the_engines_cannot_hold_is_told_alike(way: Way) -> None:
    engine = engine_that_says("Hello", kv_capacity_tokens=32)
    async with http_client(engine) as client:
        room = 32 - await num_prompt_tokens(client, way, "Hi")
        message = check_refused(await way.send(client, max_tokens=room + 1), way.prompt_field, CODE)
        assert "KV cache" in message
        assert not engine.submitted
        await way.ask(client, max_tokens=room)
