"""POST /v1/messages, streamed."""

from typing import Any

import pytest

from frontend.anthropic.events import ANTHROPIC_EVENTS
from tests.frontend.anthropic.asking import (
    ARGUMENTS,
    BODY,
    NOW,
    TOOLS,
    URL,
    WEATHER,
    ask,
    asking,
    events_of,
    stream,
    told_by,
    without_ids,
)
from tests.support.frontend_app import ANSWER, encode, engine_that_says

THOUGHT = "<think>the quick dog</think>\n\n"


async def test_events_come_in_anthropics_order() -> None:
    async with asking(engine_that_says("Hello")) as client:
        events = await stream(client)
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["message_start", "ping", "content_block_start"]
    assert set(kinds[3:-3]) == {"content_block_delta"}
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


async def test_the_first_event_has_the_empty_message_and_the_input_tokens() -> None:
    engine = engine_that_says("Hello")
    async with asking(engine) as client:
        message = (await stream(client))[0]["message"]
    assert message["id"].startswith("msg_")
    assert (message["role"], message["model"], message["content"]) == ("assistant", "tiny", [])
    assert (message["stop_reason"], message["stop_sequence"]) == (None, None)
    assert message["usage"]["input_tokens"] == len(engine.submitted[0].prompt_token_ids)


async def test_the_last_usage_is_that_of_the_whole_request() -> None:
    engine = engine_that_says(ANSWER)
    async with asking(engine) as client:
        [ended] = [e for e in await stream(client) if e["type"] == "message_delta"]
    assert ended["usage"] == {
        "input_tokens": len(engine.submitted[0].prompt_token_ids),
        "output_tokens": len(encode(ANSWER)) + 1,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    }


@pytest.mark.parametrize("tokens_per_batch", [1, 5, 1000])
@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (ANSWER, {}),
        ("", {}),
        (ANSWER, {"stop_sequences": ["today"]}),
        (ANSWER, {"max_tokens": 7}),
        (THOUGHT + ANSWER, {}),
        (THOUGHT + ANSWER, {"thinking": {"type": "disabled"}}),
        (THOUGHT, {"max_tokens": 9}),
        (f"{THOUGHT}I look. {WEATHER}\n{NOW} Then more.", {"tools": TOOLS}),
        (
            f"{WEATHER}\n{NOW}",
            {"tools": TOOLS, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        ),
        ("<tool_call>no", {"tools": TOOLS}),
        (ARGUMENTS, {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "weather"}}),
    ],
)
async def test_a_stream_joins_to_the_whole_answer(
    text: str, fields: dict[str, Any], tokens_per_batch: int
) -> None:
    engine = engine_that_says(text, tokens_per_batch=tokens_per_batch)
    async with asking(engine, reasoning_parser="think") as client:
        whole = await ask(client, **fields)
        streamed = told_by(await stream(client, **fields))
    assert without_ids(streamed) == without_ids(whole)


async def test_a_call_is_streamed_by_its_name_and_then_its_input() -> None:
    async with asking(engine_that_says(WEATHER)) as client:
        events = await stream(client, tools=TOOLS)
    [started] = [e for e in events if e["type"] == "content_block_start"]
    assert started["content_block"].pop("id").startswith("toolu_")
    assert started["content_block"] == {"type": "tool_use", "name": "weather", "input": {}}
    deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    assert {delta["type"] for delta in deltas} == {"input_json_delta"}
    assert "".join(delta["partial_json"] for delta in deltas) == ARGUMENTS
    assert len(deltas) > 1


async def test_reasoning_ends_with_an_empty_signature() -> None:
    async with asking(engine_that_says(THOUGHT + "Yes."), reasoning_parser="think") as client:
        events = await stream(client)
    deltas = [e["delta"] for e in events if e.get("index") == 0 and "delta" in e]
    assert [delta["type"] for delta in deltas[:-1]] == ["thinking_delta"] * (len(deltas) - 1)
    assert deltas[-1] == {"type": "signature_delta", "signature": ""}


async def test_mistral_ids_stay_as_the_template_wants_them() -> None:
    engine = engine_that_says(f"[TOOL_CALLS]weather{ARGUMENTS}")
    async with asking(engine, tool_call_parser="mistral") as client:
        events = await stream(client, tools=TOOLS)
    [started] = [e for e in events if e["type"] == "content_block_start"]
    assert len(started["content_block"]["id"]) == 9


async def test_a_failure_in_mid_stream_is_an_error_event_and_the_last() -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=3, error="it died")
    async with asking(engine) as client:
        answer = await client.post(URL, json={**BODY, "stream": True})
    assert answer.status_code == 200
    events = events_of(answer.text)
    assert events[-1] == {"type": "error", "error": {"type": "api_error", "message": "it died"}}
    assert not {"message_delta", "message_stop"} & {event["type"] for event in events}
    assert "[DONE]" not in answer.text


async def test_headers_keep_proxies_from_buffering() -> None:
    async with asking(engine_that_says(ANSWER)) as client:
        answer = await client.post(URL, json={**BODY, "stream": True})
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"


def test_signs_of_life_are_pings() -> None:
    assert ANTHROPIC_EVENTS.waiting == b'event: ping\ndata: {"type":"ping"}\n\n'
    assert ANTHROPIC_EVENTS.done == b""
