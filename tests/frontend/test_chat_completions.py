"""POST /v1/chat/completions, whole and streamed."""

from typing import Any

import httpx
import pytest

from cluster.wire.sampling import FinishReason
from tests.support.frontend_app import ANSWER, encode, engine_that_says, events_of, http_client

URL = "/v1/chat/completions"
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}


async def ask(client: httpx.AsyncClient, **fields: Any) -> Any:
    answer = await client.post(URL, json={**CHAT, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def stream(client: httpx.AsyncClient, **fields: Any) -> list[Any]:
    return events_of(await client.post(URL, json={**CHAT, "stream": True, **fields}))


def text_of(events: list[Any], index: int = 0) -> str:
    return "".join(
        choice["delta"].get("content", "")
        for event in events
        for choice in event["choices"]
        if choice["index"] == index
    )


async def test_an_answer_has_the_text_the_reason_and_the_usage() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        answer = await ask(client)
        [choice] = answer["choices"]
        assert choice["message"] == {"role": "assistant", "content": ANSWER, "refusal": None}
        assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", None)
        assert answer["usage"]["completion_tokens"] == len(encode(ANSWER)) + 1
        assert answer["usage"]["total_tokens"] == sum(
            answer["usage"][name] for name in ("prompt_tokens", "completion_tokens")
        )
        assert answer["quadriga"] == {"migrations": 0, "engines": [0]}
        assert answer["id"].startswith("chatcmpl-")


async def test_a_stream_joins_to_the_whole_answer() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        events = await stream(client)
        assert text_of(events) == ANSWER
        assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        reasons = [event["choices"][0]["finish_reason"] for event in events]
        assert reasons == [None] * (len(events) - 1) + ["stop"]
        assert not any("usage" in event for event in events)
        assert not any(
            "\ufffd" in event["choices"][0]["delta"].get("content", "") for event in events
        )


async def test_stream_headers_keep_proxies_from_buffering() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        answer = await client.post(URL, json={**CHAT, "stream": True})
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["x-accel-buffering"] == "no"


@pytest.mark.parametrize("tokens_per_batch", [1, 3, 1000])
async def test_a_stop_string_inside_a_word_ends_whole_and_streamed_answers_alike(
    tokens_per_batch: int,
) -> None:
    engine = engine_that_says(ANSWER, tokens_per_batch=tokens_per_batch)
    async with http_client(engine) as client:
        stop = ANSWER[8:15]
        whole = await ask(client, stop=stop)
        assert whole["choices"][0]["message"]["content"] == ANSWER[:8]
        assert whole["choices"][0]["finish_reason"] == "stop"
        assert whole["choices"][0]["stop_reason"] == stop
        events = await stream(client, stop=[stop], stream_options={"include_usage": True})
        assert text_of(events) == ANSWER[:8]
        assert events[-2]["choices"][0]["finish_reason"] == "stop"
        assert events[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
        assert whole["usage"]["completion_tokens"] < len(encode(ANSWER))


@pytest.mark.parametrize("tokens_per_batch", [1, 3, 1000])
async def test_what_counts_is_what_the_client_was_told_also_where_the_engine_went_past_a_stop_string(
    tokens_per_batch: int,
) -> None:
    engine = engine_that_says(ANSWER, tokens_per_batch=tokens_per_batch)
    async with http_client(engine) as client:
        answer = await ask(client, stop="there", n=2)
        assert [choice["finish_reason"] for choice in answer["choices"]] == ["stop", "stop"]
        assert engine.finish_reasons == [FinishReason.STOP, FinishReason.STOP]
        assert engine.num_told_tokens == answer["usage"]["completion_tokens"]
        assert engine.num_told_tokens < 2 * len(encode(ANSWER))


async def test_a_stop_string_ends_the_request_in_the_engine_exactly_once() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        await ask(client, stop="there")
        assert len(engine.aborted) == 1
        assert [reason.label for reason in engine.finish_reasons] == ["stop"]
        await ask(client)
        assert len(engine.aborted) == 1


async def test_the_stop_string_stays_if_so_asked() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        answer = await ask(client, stop="there", include_stop_str_in_output=True)
        assert answer["choices"][0]["message"]["content"] == "Hello there"


async def test_min_tokens_holds_for_stop_strings_too() -> None:
    async with http_client(engine_that_says("no no no no")) as client:
        short = await ask(client, stop="no")
        assert short["choices"][0]["message"]["content"] == ""
        longer = await ask(client, stop="no", min_tokens=4)
        assert longer["usage"]["completion_tokens"] > 4


async def test_a_named_stop_token_is_the_reason_and_its_text_is_cut() -> None:
    tokens = encode("Hello there")
    async with http_client(engine_that_says("Hello there")) as client:
        answer = await ask(client, stop_token_ids=[tokens[-1]])
        [choice] = answer["choices"]
        assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", tokens[-1])
        assert "Hello there".startswith(choice["message"]["content"])
        assert answer["usage"]["completion_tokens"] == len(tokens)


async def test_without_a_limit_a_chat_may_fill_the_context() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        prompt_tokens = (await ask(client, max_tokens=None))["usage"]["prompt_tokens"]
        assert engine.submitted[0].sampling.max_tokens == 128 - prompt_tokens


async def test_max_completion_tokens_wins_over_the_old_name() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        answer = await ask(client, max_completion_tokens=5, max_tokens=50)
        assert answer["usage"]["completion_tokens"] == 5
        assert answer["choices"][0]["finish_reason"] == "length"


async def test_an_answer_cut_inside_a_character_ends_in_one_replacement() -> None:
    num_tokens = len(encode("Hello 😀")) - 1
    async with http_client(engine_that_says("Hello 😀 again")) as client:
        whole = await ask(client, max_tokens=num_tokens)
        assert whole["choices"][0]["message"]["content"] == "Hello \ufffd"
        assert text_of(await stream(client, max_tokens=num_tokens)) == "Hello \ufffd"


async def test_usage_comes_in_one_last_event_without_choices_if_asked_for() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        events = await stream(client, stream_options={"include_usage": True})
        assert events[-1]["choices"] == []
        assert events[-1]["usage"]["completion_tokens"] == len(encode(ANSWER)) + 1
        assert all(event["usage"] is None for event in events[:-1])


async def test_continuous_usage_rises_to_the_total_over_all_choices() -> None:
    async with http_client(engine_that_says("Hello")) as client:
        options = {"include_usage": True, "continuous_usage_stats": True}
        events = await stream(client, n=2, stream_options=options)
        counts = [event["usage"]["completion_tokens"] for event in events]
        assert counts == sorted(counts)
        assert counts[-1] == counts[-2] == 2 * (len(encode("Hello")) + 1)


async def test_each_of_n_choices_is_a_request_of_its_own_with_one_seed() -> None:
    engine = engine_that_says("Hello there")
    async with http_client(engine) as client:
        answer = await ask(client, n=3)
        assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
        samplings = [request.sampling for request in engine.submitted]
        assert [sampling.choice for sampling in samplings] == [0, 1, 2]
        assert len({sampling.seed for sampling in samplings}) == 1
        assert len({request.request_id for request in engine.submitted}) == 3

        events = await stream(client, n=3)
        assert [text_of(events, index) for index in range(3)] == ["Hello there"] * 3
        firsts = [e for e in events if e["choices"][0]["delta"].get("role") == "assistant"]
        lasts = [e for e in events if e["choices"][0]["finish_reason"] is not None]
        assert len(firsts) == len(lasts) == 3


async def test_requests_without_a_seed_get_different_ones() -> None:
    engine = engine_that_says("Hello")
    async with http_client(engine) as client:
        await ask(client)
        await ask(client)
        await ask(client, seed=7)
        first, second, third = (request.sampling.seed for request in engine.submitted)
        assert first != second
        assert third == 7


async def test_logprobs_alone_come_without_alternatives() -> None:
    async with http_client(engine_that_says("Hello")) as client:
        content = (await ask(client, logprobs=True))["choices"][0]["logprobs"]["content"]
        assert len(content) == len(encode("Hello")) + 1
        assert "".join(item["token"] for item in content) == "Hello<|im_end|>"
        assert bytes(content[0]["bytes"]).decode() == content[0]["token"]
        assert all(item["top_logprobs"] == [] for item in content)
        assert content[0]["logprob"] == -0.5


async def test_streamed_logprobs_are_the_same_list_and_come_no_later_than_their_text() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        fields: dict[str, Any] = {"logprobs": True, "top_logprobs": 3, "stop": ["todayx"]}
        whole = (await ask(client, **fields))["choices"][0]
        streamed, text = [], ""
        for event in await stream(client, **fields):
            choice = event["choices"][0]
            streamed += (choice["logprobs"] or {"content": []})["content"]
            text += choice["delta"].get("content", "")
            described = b"".join(bytes(item["bytes"]) for item in streamed)
            assert described.decode("utf-8", "ignore").startswith(text)
        assert streamed == whole["logprobs"]["content"]
        assert [top["logprob"] for top in streamed[0]["top_logprobs"]] == [-1.0, -2.0, -9999.0]


async def test_prompt_logprobs_have_one_entry_a_prompt_token_and_none_for_the_first() -> None:
    async with http_client(engine_that_says("Hello")) as client:
        answer = await ask(client, prompt_logprobs=1)
        assert len(answer["prompt_logprobs"]) == answer["usage"]["prompt_tokens"]
        assert answer["prompt_logprobs"][0] is None
        entry = answer["prompt_logprobs"][1]
        assert entry["10"]["rank"] == 1


async def test_token_ids_come_along_if_asked_for() -> None:
    async with http_client(engine_that_says("Hello")) as client:
        whole = await ask(client, return_token_ids=True)
        assert whole["choices"][0]["token_ids"] == [*encode("Hello"), 2]
        assert len(whole["prompt_token_ids"]) == whole["usage"]["prompt_tokens"]
        events = await stream(client, return_token_ids=True)
        assert events[0]["prompt_token_ids"] == whole["prompt_token_ids"]
        streamed = [i for e in events for i in e["choices"][0].get("token_ids", [])]
        assert streamed == whole["choices"][0]["token_ids"]


async def test_a_failure_before_the_first_token_is_an_http_status_even_of_a_stream() -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=0, error="it died")
    async with http_client(engine) as client:
        for streamed in (False, True):
            answer = await client.post(URL, json={**CHAT, "stream": streamed})
            assert answer.status_code == 500
            assert answer.json()["error"]["code"] == "engine_failed"


async def test_a_failure_in_mid_stream_is_an_error_event_and_no_done() -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=3, error="it died")
    async with http_client(engine) as client:
        answer = await client.post(URL, json={**CHAT, "stream": True})
        assert answer.status_code == 200
        events = answer.text.strip().split("\n\n")
        assert events[-1].startswith('data: {"error":{"message":"it died"')
        assert "[DONE]" not in answer.text
        assert '"finish_reason":"' not in answer.text
        assert (await client.post(URL, json=CHAT)).status_code == 500


async def test_when_one_choice_fails_the_others_are_ended() -> None:
    engine = engine_that_says(ANSWER, tokens_before_hold=3)
    async with http_client(engine) as client:
        original = engine.submit

        def fail_the_second(request: Any) -> Any:
            found = original(request)
            if request.sampling.choice == 1:
                found.fail("it died")
            return found

        engine.submit = fail_the_second  # type: ignore[method-assign]
        answer = await client.post(URL, json={**CHAT, "n": 3})
        assert answer.status_code == 500
        assert sorted(request_id[-1] for request_id in engine.aborted) == ["0", "2"]


async def test_a_conversation_with_tool_turns_and_null_content_is_rendered() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ]
    async with http_client(engine_that_says("Hello")) as client:
        tokens = (await client.post("/tokenize", json={"messages": messages})).json()["tokens"]
        text = (await client.post("/detokenize", json={"tokens": tokens})).json()["prompt"]
        assert '<|im_start|>assistant\n<call>f({"a": 1})<|im_end|>' in text
        await ask(client, messages=messages)


async def test_lone_surrogates_and_nuls_survive() -> None:
    body = b'{"messages": [{"role": "user", "content": "a \\ud83d b \\u0000 \\ud83d\\ude00"}]}'
    async with http_client(engine_that_says("Hello")) as client:
        headers = {"content-type": "application/json"}
        tokens = (await client.post("/tokenize", content=body, headers=headers)).json()["tokens"]
        text = (await client.post("/detokenize", json={"tokens": tokens})).json()["prompt"]
        assert "a \ufffd b \0 😀" in text
        assert (await client.post(URL, content=body, headers=headers)).status_code == 200
        unknown = b'{"model": "\\ud83d", "messages": [{"role": "user", "content": "a"}]}'
        assert (await client.post(URL, content=unknown, headers=headers)).status_code == 404


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": 5}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0].type",
        ),
        ({"n": 0}, "n"),
        ({"n": 16385}, "n"),
        ({"temperature": 2.01}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": "0.5"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 1.5}, "min_p"),
        ({"presence_penalty": 2.5}, "presence_penalty"),
        ({"frequency_penalty": -2.5}, "frequency_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"seed": 2**63}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"min_tokens": 9, "max_tokens": 5}, "min_tokens"),
        ({"min_tokens": 120}, "min_tokens"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a"] * 200}, "stop"),
        ({"stop_token_ids": [999999999]}, "stop_token_ids"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"logit_bias": {"999999999": 5}}, "logit_bias"),
        ({"logit_bias": {"-1": 5}}, "logit_bias"),
        ({"logit_bias": {"abc": 5}}, "logit_bias"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"allowed_token_ids": []}, "allowed_token_ids"),
        ({"allowed_token_ids": [400]}, "allowed_token_ids"),
        ({"bad_words": [""]}, "bad_words"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"cache_salt": "a@b"}, "cache_salt"),
        ({"cache_salt": "x" * 129}, "cache_salt"),
        ({"data_parallel_rank": -1}, "data_parallel_rank"),
        ({"priority": 2**40}, "priority"),
        ({"continue_final_message": True, "add_generation_prompt": True}, "continue_final_message"),
        ({"chat_template": "{{ 1 }}"}, "chat_template"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"functions": [{}]}, "functions[0].name"),
        ({"response_format": 5}, "response_format"),
        ({"use_beam_search": True}, "use_beam_search"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"audio": {}}, "audio"),
        ({"echo": True}, "echo"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_what_is_wrong_is_400_naming_the_field_before_an_engine_sees_it(
    fields: dict[str, Any], param: str, streamed: bool
) -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        stream_field = {"stream": True} if streamed and "stream_options" not in fields else {}
        answer = await client.post(URL, json={**CHAT, **stream_field, **fields})
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert (error["type"], error["param"]) == ("invalid_request_error", param)
        assert not engine.submitted
        await ask(client)


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "text"}},
        {"tools": []},
        {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"},
        {"modalities": ["text"]},
        {"temperature": 1e-9},
        {"unknown_field": [1, 2, 3]},
        {"stop": None, "n": None, "logit_bias": None, "stream_options": None, "seed": None},
        {"messages": [{"role": "developer", "content": [{"type": "text", "text": "Be kind"}]}]},
        {"messages": [{"role": "assistant", "content": "I", "tool_calls": []}]},
        {"seed": -5},
    ],
)
async def test_what_asks_for_nothing_special_is_served(fields: dict[str, Any]) -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        assert (await ask(client, **fields))["choices"][0]["message"]["content"] == ANSWER


async def test_missing_messages_name_the_field_and_another_model_is_404() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        missing = await client.post(URL, json={"model": "tiny"})
        assert (missing.status_code, missing.json()["error"]["param"]) == (400, "messages")
        other = await client.post(URL, json={**CHAT, "model": "other"})
        assert (other.status_code, other.json()["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("body", [b"", b"[", b"5", b"{]", b'{"model": "\xff"}', b"[" * 100_000])
async def test_bodies_that_are_no_json_object_are_400(body: bytes) -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        headers = {"content-type": "application/json"}
        answer = await client.post(URL, content=body, headers=headers)
        assert answer.status_code == 400
        assert "body" in answer.json()["error"]["message"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_prompt_over_the_context_is_told_in_openais_words(streamed: bool) -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        long = {"messages": [{"role": "user", "content": "x " * 200}], "stream": streamed}
        answer = await client.post(URL, json=long)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["code"] == "context_length_exceeded"
        assert error["message"].startswith(
            "This model's maximum context length is 128 tokens. However, your messages resulted in "
        )
        answer = await client.post(URL, json={**CHAT, "max_tokens": 127, "stream": streamed})
        assert answer.status_code == 400
        assert "(16 in the messages, 127 in the completion)" in answer.json()["error"]["message"]
        assert not engine.submitted


async def test_what_no_engines_cache_can_hold_is_refused_at_once() -> None:
    engine = engine_that_says(ANSWER, kv_capacity_tokens=32)
    async with http_client(engine) as client:
        answer = await client.post(URL, json={**CHAT, "max_tokens": 30})
        assert answer.status_code == 400
        assert "KV cache" in answer.json()["error"]["message"]
        await ask(client)
        assert engine.submitted[0].sampling.max_tokens == 32 - len(
            engine.submitted[0].prompt_token_ids
        )


async def test_a_request_can_be_pinned_by_header_or_field() -> None:
    engine = engine_that_says("Hello")
    async with http_client(engine) as client:
        for headers in ({"x-data-parallel-rank": "3"}, {"x-data-parallel-rank": "three"}):
            await client.post(URL, json=CHAT, headers=headers)
        await ask(client, data_parallel_rank=1)
        assert [request.pinned_rank for request in engine.submitted] == [3, None, 1]


async def test_a_final_message_is_continued_where_it_ends() -> None:
    messages = [*CHAT["messages"], {"role": "assistant", "content": "Hello th"}]
    async with http_client(engine_that_says("ere")) as client:
        body = {"messages": messages, "continue_final_message": True}
        tokens = (await client.post("/tokenize", json=body)).json()["tokens"]
        text = (await client.post("/detokenize", json={"tokens": tokens})).json()["prompt"]
        assert text.endswith("<|im_start|>assistant\nHello th")
        await ask(client, **body)
