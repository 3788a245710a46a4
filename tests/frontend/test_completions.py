"""POST /v1/completions, whole and streamed."""

import itertools
from typing import Any

import httpx
import pytest

from tests.support.frontend_app import ANSWER, encode, engine_that_says, events_of, http_client

URL = "/v1/completions"


async def ask(client: httpx.AsyncClient, prompt: Any = "Hello", **fields: Any) -> Any:
    answer = await client.post(URL, json={"prompt": prompt, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def stream(client: httpx.AsyncClient, prompt: Any = "Hello", **fields: Any) -> list[Any]:
    return events_of(await client.post(URL, json={"prompt": prompt, "stream": True, **fields}))


def text_of(events: list[Any], index: int = 0) -> str:
    choices = [choice for event in events for choice in event["choices"]]
    return "".join(choice["text"] for choice in choices if choice["index"] == index)


async def test_sixteen_tokens_are_generated_unless_asked_otherwise() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        answer = await ask(client)
        assert answer["usage"]["completion_tokens"] == 16
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["id"].startswith("cmpl-")
        assert text_of(await stream(client)) == answer["choices"][0]["text"]


async def test_the_default_is_cut_to_what_fits_the_context() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        answer = await ask(client, [5] * 125)
        assert answer["usage"]["completion_tokens"] == 3
        refused = await client.post(URL, json={"prompt": [5] * 128})
        assert refused.json()["error"]["code"] == "context_length_exceeded"


async def test_a_text_gets_what_the_tokenizer_adds_and_token_ids_get_nothing() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        await ask(client, "Hello")
        await ask(client, "Hello", add_special_tokens=False)
        await ask(client, [0])
        await ask(client, [5, 6, 7])
        assert [request.prompt_token_ids for request in engine.submitted] == [
            [0, *encode("Hello")],
            encode("Hello"),
            [0],
            [5, 6, 7],
        ]


async def test_several_prompts_give_n_choices_each_in_order() -> None:
    engine = engine_that_says("Hello")
    async with http_client(engine) as client:
        answer = await ask(client, [[5, 6], [7]], n=2)
        assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
        assert [r.prompt_token_ids for r in engine.submitted] == [[5, 6], [5, 6], [7], [7]]
        assert [r.sampling.choice for r in engine.submitted] == [0, 1, 0, 1]
        assert answer["usage"]["prompt_tokens"] == 3
        assert len(await ask(client, ["a", "b", [5]])) > 0


@pytest.mark.parametrize(
    "prompt", [[], [[]], [1, "a"], "", None, [None], [[5, "a"]], [True], [999999999], [-1], {}, 5]
)
async def test_prompts_that_are_none_are_400(prompt: Any) -> None:
    engine = engine_that_says("Hello")
    async with http_client(engine) as client:
        for body in ({"prompt": prompt}, {"prompt": prompt, "stream": True}):
            # Without the added token an empty text has none.
            answer = await client.post(URL, json={**body, "add_special_tokens": False})
            assert answer.status_code == 400
            assert answer.json()["error"]["param"].partition("[")[0] == "prompt"
        assert not engine.submitted


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"best_of": 2}, "best_of"),
        ({"suffix": "x"}, "suffix"),
        ({"prompt_embeds": "x"}, "prompt_embeds"),
        ({"logprobs": -1}, "logprobs"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"echo": 1}, "echo"),
    ],
)
async def test_what_is_wrong_is_400_naming_the_field(fields: dict[str, Any], param: str) -> None:
    async with http_client(engine_that_says("Hello")) as client:
        answer = await client.post(URL, json={"prompt": "Hi", **fields})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_echo_puts_the_prompt_in_front_whole_and_streamed() -> None:
    async with http_client(engine_that_says(" there")) as client:
        assert (await ask(client, "Hello", echo=True))["choices"][0]["text"] == "Hello there"
        assert text_of(await stream(client, "Hello", echo=True)) == "Hello there"
        answer = await ask(client, encode("Hello"), echo=True, n=2)
        assert [choice["text"] for choice in answer["choices"]] == ["Hello there"] * 2


async def test_no_tokens_give_an_empty_text_or_the_echoed_prompt() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        empty = await ask(client, "Hello", max_tokens=0)
        assert (empty["choices"][0]["text"], empty["choices"][0]["finish_reason"]) == ("", "length")
        assert empty["usage"]["completion_tokens"] == 0
        echoed = await ask(client, "Hello", max_tokens=0, echo=True, logprobs=1)
        assert echoed["choices"][0]["text"] == "Hello"
        assert len(echoed["choices"][0]["logprobs"]["tokens"]) == echoed["usage"]["prompt_tokens"]
        assert text_of(await stream(client, "Hello", max_tokens=0, echo=True)) == "Hello"


async def test_logprobs_come_in_columns_whose_offsets_point_into_the_text() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        choice = (await ask(client, logprobs=2))["choices"][0]
        columns = choice["logprobs"]
        assert {len(column) for column in columns.values()} == {16}
        assert columns["token_logprobs"] == [-0.5] * 16
        for token, offset in zip(columns["tokens"], columns["text_offset"], strict=True):
            if "\ufffd" not in token:
                assert choice["text"].startswith(token, offset)
        tops = columns["top_logprobs"][0]
        assert tops[columns["tokens"][0]] == -0.5
        assert len(tops) == 3
        none = (await ask(client, logprobs=0))["choices"][0]["logprobs"]
        assert [list(top.values()) for top in none["top_logprobs"]] == [[-0.5]] * 16


async def test_streamed_logprobs_are_the_same_columns() -> None:
    async with http_client(engine_that_says(ANSWER)) as client:
        for fields in ({"logprobs": 2}, {"logprobs": 1, "echo": True}):
            whole = (await ask(client, **fields))["choices"][0]
            events = await stream(client, **fields)
            for name, column in whole["logprobs"].items():
                parts = [event["choices"][0]["logprobs"][name] for event in events]
                assert list(itertools.chain.from_iterable(parts)) == column
            assert text_of(events) == whole["text"]


async def test_echoed_logprobs_begin_with_the_prompts_own() -> None:
    async with http_client(engine_that_says(" there")) as client:
        answer = await ask(client, "Hello", echo=True, logprobs=1, max_tokens=1)
        choice = answer["choices"][0]
        columns = choice["logprobs"]
        assert len(columns["tokens"]) == answer["usage"]["total_tokens"]
        assert columns["token_logprobs"][0] is None
        assert columns["top_logprobs"][0] is None
        assert columns["text_offset"][-1] == len("Hello")


async def test_tokens_can_be_named_by_their_ids() -> None:
    async with http_client(engine_that_says("Hello")) as client:
        answer = await ask(client, logprobs=0, return_tokens_as_token_ids=True)
        assert answer["choices"][0]["logprobs"]["tokens"][-1] == "token_id:2"


async def test_a_prompt_is_cut_from_the_left_if_so_asked() -> None:
    engine = engine_that_says("Hello")
    async with http_client(engine) as client:
        await ask(client, [5, 6, 7, 8], truncate_prompt_tokens=2)
        await ask(client, [9] * 500, truncate_prompt_tokens=-1, max_tokens=8)
        assert engine.submitted[0].prompt_token_ids == [7, 8]
        assert len(engine.submitted[1].prompt_token_ids) == 120


async def test_the_model_goes_on_after_its_end_if_that_is_to_be_ignored() -> None:
    engine = engine_that_says("Hello")
    async with http_client(engine) as client:
        await ask(client)
        await ask(client, ignore_eos=True, stop_token_ids=[7])
        assert engine.submitted[0].sampling.stop_token_ids == [2]
        assert engine.submitted[1].sampling.stop_token_ids == [7]


async def test_special_tokens_are_part_of_the_text_only_if_so_asked() -> None:
    async with http_client(engine_that_says("a<|im_start|>b")) as client:
        assert (await ask(client))["choices"][0]["text"] == "ab"
        shown = await ask(client, skip_special_tokens=False)
        assert shown["choices"][0]["text"] == "a<|im_start|>b"


async def test_a_session_is_handed_on_and_too_long_a_name_refused() -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine) as client:
        taken, refused = [
            await client.post(URL, json={"prompt": "Hi"}, headers={"X-Session-ID": "s" * length})
            for length in (128, 129)
        ]
        assert (taken.status_code, refused.status_code) == (200, 400)
        assert refused.json()["error"]["param"] == "X-Session-ID"
        assert [request.session for request in engine.submitted] == ["s" * 128]
