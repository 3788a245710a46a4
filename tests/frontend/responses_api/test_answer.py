"""POST /v1/responses: what is answered, whole and streamed."""

from typing import Any

import pytest

from tests.frontend.responses_api.asking import (
    ARGUMENTS,
    NOW,
    THINKS,
    TOOLS,
    URL,
    WEATHER,
    ask,
    events_of,
    http_client_of,
    stream,
    without_what_is_fresh,
)
from tests.support.frontend_app import ANSWER, encode, engine_that_says
from tests.support.tiny_tokenizer import tiny_tokenizer

LOGPROBS: dict[str, Any] = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
THOUGHT = "<think>the quick dog</think>Yes."


def names_of(events: list[Any]) -> list[str]:
    """The types of events, with those that follow each other and are the same told once."""
    names = [event["type"].removeprefix("response.") for event in events]
    return [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]


def deltas_of(events: list[Any], kind: str) -> str:
    return "".join(e["delta"] for e in events if e["type"] == f"response.{kind}.delta")


async def test_an_answer_is_a_message_with_its_usage() -> None:
    answer = await ask(ANSWER)
    [message] = answer["output"]
    assert answer["id"].startswith("resp_")
    assert message["id"].startswith("msg_")
    assert (message["type"], message["role"], message["status"]) == (
        "message",
        "assistant",
        "completed",
    )
    [part] = message["content"]
    assert part == {"type": "output_text", "text": ANSWER, "annotations": [], "logprobs": []}
    assert (answer["object"], answer["status"]) == ("response", "completed")
    assert answer["completed_at"] >= answer["created_at"]
    usage = answer["usage"]
    assert usage["output_tokens"] == len(encode(ANSWER)) + 1
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}
    assert answer["quadriga"] == {"migrations": 0, "engines": [0]}


async def test_the_request_is_told_as_it_was_understood() -> None:
    answer = await ask(
        ANSWER,
        instructions="Be brief.",
        temperature=0,
        top_p=0.5,
        max_output_tokens=40,
        metadata={"a": "b"},
        user="me",
        store=True,
        tools=TOOLS,
        tool_choice="none",
        parallel_tool_calls=False,
        reasoning={"effort": "low", "summary": "auto"},
    )
    assert (answer["instructions"], answer["user"]) == ("Be brief.", "me")
    assert (answer["temperature"], answer["top_p"], answer["max_output_tokens"]) == (0, 0.5, 40)
    assert answer["metadata"] == {"a": "b"}
    assert answer["store"] is False
    assert (answer["tools"], answer["tool_choice"]) == (TOOLS, "none")
    assert answer["parallel_tool_calls"] is False
    assert answer["reasoning"] == {"effort": "low", "summary": None}


async def test_what_was_not_said_is_told_by_its_default() -> None:
    answer = await ask(ANSWER)
    assert (answer["tools"], answer["tool_choice"], answer["metadata"]) == ([], "auto", {})
    assert answer["parallel_tool_calls"] is True
    assert answer["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert (answer["truncation"], answer["background"], answer["store"]) == (
        "disabled",
        False,
        False,
    )
    assert (answer["temperature"], answer["top_p"]) == (1, 1)


async def test_what_vllm_takes_beside_it_reaches_the_engine() -> None:
    engine = engine_that_says(ANSWER)
    third = encode(ANSWER)[2]
    body = {
        "input": "Hi", "max_output_tokens": 20, "min_tokens": 3, "stop_token_ids": [third],
        "logit_bias": {"7": 1.5}, "ignore_eos": True, "seed": 7, "top_k": 3, "min_p": 0.25,
        "allowed_token_ids": [*range(5, 400)], "bad_words": ["fox"],
    }  # fmt: skip
    async with http_client_of(engine) as client:
        answer = await client.post(URL, json=body)
    assert answer.status_code == 200, answer.text
    [request] = engine.submitted
    sampling = request.sampling
    assert (sampling.min_tokens, sampling.stop_token_ids) == (3, [third])
    assert (sampling.logit_bias, sampling.seed) == ([(7, 1.5)], 7)
    assert (sampling.top_k, sampling.min_p) == (3, 0.25)
    assert sampling.allowed_token_ids == [*range(5, 400)]
    assert encode("fox") in sampling.bad_words


async def test_a_stop_string_is_told_where_that_is_asked_for() -> None:
    stop = ANSWER.split()[1]
    for is_told in (False, True):
        answer = await ask(ANSWER, stop=stop, include_stop_str_in_output=is_told)
        [message] = answer["output"]
        assert message["content"][0]["text"].endswith(stop) == is_told


async def test_special_tokens_are_told_where_that_is_asked_for() -> None:
    for is_told in (False, True):
        answer = await ask(f"{ANSWER}<|im_start|>", skip_special_tokens=not is_told)
        [message] = answer["output"]
        assert message["content"][0]["text"].endswith("<|im_start|>") == is_told


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_reasoning_is_left_out_where_that_is_asked_for(is_streamed: bool) -> None:
    fields: dict[str, Any] = {"settings": THINKS, "include_reasoning": False}
    if is_streamed:
        answer = (await stream(THOUGHT, **fields))[-1]["response"]
    else:
        answer = await ask(THOUGHT, **fields)
    [message] = answer["output"]
    assert message["content"][0]["text"] == "Yes."
    assert answer["usage"]["output_tokens_details"]["reasoning_tokens"] > 0


async def test_the_last_turn_is_continued_where_that_is_asked_for() -> None:
    engine = engine_that_says(ANSWER)
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "the quick"}]
    fields = {"input": turns, "add_generation_prompt": False, "continue_final_message": True}
    async with http_client_of(engine) as client:
        answer = await client.post(URL, json=fields)
    assert answer.status_code == 200, answer.text
    [request] = engine.submitted
    prompt = tiny_tokenizer().decode(request.prompt_token_ids, skip_special_tokens=False)
    assert prompt.endswith("the quick")


async def test_tokens_are_named_by_their_ids_where_that_is_asked_for() -> None:
    answer = await ask(ANSWER, return_tokens_as_token_ids=True, **LOGPROBS)
    [message] = answer["output"]
    names = [logprob["token"] for logprob in message["content"][0]["logprobs"]]
    assert names[:3] == [f"token_id:{token_id}" for token_id in encode(ANSWER)[:3]]


@pytest.mark.parametrize("name", ["structural_tag", "use_beam_search", "chat_template"])
async def test_what_no_way_to_generate_supports_is_refused_here_too(name: str) -> None:
    async with http_client_of(engine_that_says(ANSWER)) as client:
        answer = await client.post(URL, json={"input": "Hi", name: "x"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)


@pytest.mark.parametrize(("least", "num_tokens"), [(0, 3), (3, 20)])
async def test_a_stop_token_ends_an_answer_that_is_long_enough(least: int, num_tokens: int) -> None:
    token_ids = encode(ANSWER)
    assert token_ids.index(token_ids[2]) == 2
    assert token_ids[2] not in token_ids[3:20]
    answer = await ask(
        ANSWER, max_output_tokens=20, stop_token_ids=[token_ids[2]], min_tokens=least
    )
    assert answer["usage"]["output_tokens"] == num_tokens
    assert answer["status"] == ("completed" if num_tokens == 3 else "incomplete")


async def test_a_stream_tells_each_step_of_a_message() -> None:
    events = await stream(ANSWER)
    assert names_of(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert deltas_of(events, "output_text") == ANSWER
    assert sum(event["type"] == "response.output_text.delta" for event in events) > 5
    assert events[0]["response"]["output"] == []
    assert events[0]["response"]["status"] == "in_progress"
    assert events[0]["response"]["usage"] is None
    assert events[2]["item"]["content"] == []
    assert events[3]["part"]["text"] == ""


ANSWERS: dict[str, dict[str, Any]] = {
    ANSWER: {},
    "": {},
    WEATHER + "\n" + NOW: {"tools": TOOLS},
    f"I look. {WEATHER}": {"tools": TOOLS},
    f"<think>{ANSWER}</think>\n\nSo: {WEATHER}": {"tools": TOOLS, "settings": THINKS},
    THOUGHT: {"settings": THINKS},
    "<think>without an end": {"settings": THINKS},
}


@pytest.mark.parametrize("text", ANSWERS)
@pytest.mark.parametrize("tokens_per_batch", [1, 1000])
@pytest.mark.parametrize("extra", [{}, {"max_output_tokens": 7}, LOGPROBS, {"stop": "l"}])
async def test_a_stream_ends_with_the_answer_that_is_not_streamed(
    text: str, tokens_per_batch: int, extra: dict[str, Any]
) -> None:
    fields = {**ANSWERS[text], **extra}
    whole = await ask(text, **fields)
    events = await stream(text, tokens_per_batch=tokens_per_batch, **fields)
    last = events[-1]
    assert last["type"] == f"response.{last['response']['status']}"
    assert without_what_is_fresh(last["response"]) == without_what_is_fresh(whole)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == last["response"]["output"]
    added = [event for event in events if event["type"] == "response.output_item.added"]
    assert [event["item"]["id"] for event in added] == [item["id"] for item in done]
    assert [event["output_index"] for event in added] == list(range(len(done)))


async def test_an_answer_that_is_cut_is_incomplete() -> None:
    answer = await ask(ANSWER, max_output_tokens=3)
    assert answer["status"] == "incomplete"
    assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answer["completed_at"] is None
    assert answer["output"][0]["status"] == "incomplete"
    assert answer["usage"]["output_tokens"] == 3
    events = await stream(ANSWER, max_output_tokens=3)
    assert events[-1]["type"] == "response.incomplete"


async def test_an_answer_of_exactly_the_limit_is_complete() -> None:
    answer = await ask(ANSWER, max_output_tokens=len(encode(ANSWER)) + 1)
    assert (answer["status"], answer["incomplete_details"]) == ("completed", None)


async def test_an_answer_of_nothing_is_a_message_without_text() -> None:
    answer = await ask("")
    assert [part["text"] for part in answer["output"][0]["content"]] == [""]


async def test_a_stop_string_ends_the_answer() -> None:
    answer = await ask(ANSWER, stop=[" How"])
    assert answer["output"][0]["content"][0]["text"] == "Hello there!"
    assert answer["status"] == "completed"


async def test_calls_are_items_of_their_own() -> None:
    answer = await ask(f"I look. {WEATHER}\n{NOW}", tools=TOOLS)
    message, weather, now = answer["output"]
    assert message["content"][0]["text"].strip() == "I look."
    assert (weather["type"], weather["name"], weather["arguments"]) == (
        "function_call",
        "weather",
        ARGUMENTS,
    )
    assert weather["id"].startswith("fc_")
    assert weather["call_id"].startswith("call_")
    assert (now["name"], now["arguments"]) == ("now", "{}")
    assert now["call_id"] != weather["call_id"]
    assert {item["status"] for item in answer["output"]} == {"completed"}


async def test_a_stream_tells_each_step_of_a_call() -> None:
    events = await stream(WEATHER, tools=TOOLS)
    assert names_of(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert events[2]["item"]["name"] == "weather"
    assert events[2]["item"]["arguments"] == ""
    assert deltas_of(events, "function_call_arguments") == ARGUMENTS
    assert events[-3]["arguments"] == ARGUMENTS


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ("required", '[{"name": "weather", "parameters": ' + ARGUMENTS + "}]"),
        ({"type": "function", "name": "weather"}, ARGUMENTS),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "weather"}],
            },
            '[{"name": "weather", "parameters": ' + ARGUMENTS + "}]",
        ),
    ],
)
async def test_a_forced_call_is_held_to_a_grammar(choice: Any, text: str) -> None:
    engine = engine_that_says(text)
    async with http_client_of(engine) as client:
        body = {"input": "Hi", "tools": TOOLS, "tool_choice": choice}
        answer = (await client.post(URL, json=body)).json()
    assert engine.submitted[0].sampling.grammar
    [call] = answer["output"]
    assert (call["name"], call["arguments"]) == ("weather", ARGUMENTS)
    assert answer["tool_choice"] == choice


async def test_reasoning_is_an_item_before_the_message() -> None:
    answer = await ask(THOUGHT, settings=THINKS)
    reasoning, message = answer["output"]
    assert reasoning["id"].startswith("rs_")
    assert (reasoning["type"], reasoning["summary"]) == ("reasoning", [])
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "the quick dog"}]
    assert message["content"][0]["text"] == "Yes."
    num_tokens = len(encode(THOUGHT.removesuffix("Yes.")))
    assert answer["usage"]["output_tokens_details"] == {"reasoning_tokens": num_tokens}


async def test_a_stream_tells_each_step_of_reasoning() -> None:
    events = await stream(THOUGHT, settings=THINKS)
    assert names_of(events)[2:9] == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
    ]
    assert deltas_of(events, "reasoning_text") == "the quick dog"
    assert deltas_of(events, "output_text") == "Yes."


async def test_the_answer_follows_a_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"type": "json_schema", "name": "thing", "schema": schema, "strict": True}
    engine = engine_that_says('{"a": 1}')
    async with http_client_of(engine) as client:
        body = {"input": "Hi", "text": {"format": form}}
        answer = (await client.post(URL, json=body)).json()
    assert engine.submitted[0].sampling.grammar
    assert answer["text"]["format"] == form


async def test_log_probabilities_come_with_their_text() -> None:
    events = await stream(ANSWER, **LOGPROBS)
    [part] = events[-1]["response"]["output"][0]["content"]
    told = [
        item
        for event in events
        if event["type"] == "response.output_text.delta"
        for item in event["logprobs"]
    ]
    assert told == part["logprobs"]
    assert len(told) == len(encode(ANSWER)) + 1
    spelled = bytes(byte for item in told[:-1] for byte in item["bytes"]).decode()
    assert spelled == ANSWER
    assert [len(item["top_logprobs"]) for item in told] == [2] * len(told)


@pytest.mark.parametrize("tokens_per_batch", [1, 5, 1000])
@pytest.mark.parametrize("thought", ["", "<think>the quick dog</think>", "<think></think>"])
async def test_log_probabilities_are_only_of_the_text_for_the_reader(
    tokens_per_batch: int, thought: str
) -> None:
    text = f"{thought}Yes.{WEATHER}"
    fields: Any = {"settings": THINKS, "tools": TOOLS, **LOGPROBS}
    events = await stream(text, **fields, tokens_per_batch=tokens_per_batch)
    [message] = [item for item in events[-1]["response"]["output"] if item["type"] == "message"]
    [part] = message["content"]
    assert part["text"] == "Yes."
    assert bytes(byte for item in part["logprobs"] for byte in item["bytes"]) == b"Yes."


async def test_log_probabilities_are_told_only_if_asked_for() -> None:
    answer = await ask(ANSWER, top_logprobs=2)
    assert answer["output"][0]["content"][0]["logprobs"] == []
    assert answer["top_logprobs"] == 2


async def test_a_failure_in_mid_stream_is_told_as_a_failed_response_and_an_error() -> None:
    engine = engine_that_says(ANSWER, error="it died", tokens_before_hold=3)
    async with http_client_of(engine) as client:
        events = events_of(await client.post(URL, json={"input": "Hi", "stream": True}))
    failed, error = events[-2:]
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": "server_error", "message": "it died"}
    [message] = failed["response"]["output"]
    assert message["status"] == "incomplete"
    assert ANSWER.startswith(message["content"][0]["text"])
    assert (error["type"], error["message"], error["code"]) == ("error", "it died", "engine_failed")
    assert error["error"]["message"] == "it died"


async def test_a_failure_before_the_first_token_is_a_status() -> None:
    engine = engine_that_says(ANSWER, error="it died", tokens_before_hold=0)
    async with http_client_of(engine) as client:
        answer = await client.post(URL, json={"input": "Hi", "stream": True})
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "engine_failed"
