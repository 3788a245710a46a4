"""Bodies that are refused before anything reaches an engine, and those that just pass."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response

from cluster.config import ClusterConfig
from cluster.errors import RequestError
from frontend.generation import Generation, IndexedDelta
from frontend.input_processor import Arrival, InputProcessor, PreparedRequest
from frontend.openai.decoding import decode_body
from frontend.output_processor import ChoiceDelta
from frontend.responses_api.answer import ResponseAnswer
from frontend.responses_api.schemas import ResponsesBody
from frontend.routes.responses import prepare_response
from tests.frontend.responses_api.asking import MODEL, TOOLS, URL, http_client_of
from tests.support.frontend_app import ANSWER, engine_that_says
from tests.support.tiny_tokenizer import CHAT_TEMPLATE, tiny_tokenizer

INPUTS = InputProcessor(ClusterConfig(), MODEL, tiny_tokenizer())


def schema_of(schema: Any) -> dict[str, Any]:
    return {"format": {"type": "json_schema", "name": "thing", "schema": schema}}


def nested(num_levels: int) -> Any:
    """Objects inside of each other."""
    return {"a": nested(num_levels - 1)} if num_levels else {}


def tool_of(parameters: Any) -> dict[str, Any]:
    return {"type": "function", "name": "f", "parameters": parameters}


def tools(number: int) -> list[dict[str, Any]]:
    return [{"type": "function", "name": f"f{i}"} for i in range(number)]


async def status_and_param(body: dict[str, Any], template: str) -> tuple[int, str | None]:
    engine = engine_that_says(ANSWER)
    async with http_client_of(engine, template) as client:
        answer = await client.post(URL, json=body)
    if answer.status_code == 200:
        return 200, None
    assert not engine.submitted
    return answer.status_code, answer.json()["error"]["param"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a"]}, "input[0]"),
        ({"input": [{"role": "wizard", "content": "Hi"}]}, "input[0].role"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": 100_000}, "input"),
        ({"temperature": 2.1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"metadata": {str(i): "" for i in range(17)}}, "metadata"),
        ({"metadata": {"a" * 65: ""}}, "metadata"),
        ({"metadata": {"a": "b" * 513}}, "metadata"),
        ({"metadata": {"a": 5}}, "metadata"),
        ({"tools": tools(129)}, "tools"),
        ({"tools": [{**TOOLS[0], "parameters": {"type": "array"}}]}, "tools[0].parameters"),
        ({"tools": [tool_of(nested(100))], "tool_choice": "none"}, "tools[0]"),
        ({"tools": [tool_of(nested(900))], "tool_choice": "none"}, "tools[0]"),
        ({"text": {"format": {"type": "text", "schema": nested(101)}}}, "text.format.schema"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "f"}}, "tool_choice"),
        ({"text": schema_of(None)}, "text.format.schema"),
        ({"text": schema_of({"type": "notatype"})}, "text.format.schema"),
        ({"text": schema_of({"type": "object", "properties": 5})}, "text.format.schema"),
        ({"stop": ["a"] * 129}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", ""]}, "stop"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 9, "max_output_tokens": 5}, "min_tokens"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"stop_token_ids": [MODEL.vocab_size]}, "stop_token_ids"),
        ({"stop_token_ids": [0] * 1025}, "stop_token_ids"),
        ({"logit_bias": {"5": 100.1}}, "logit_bias"),
        ({"logit_bias": {"5": "x"}}, "logit_bias"),
        ({"logit_bias": {"abc": 5}}, "logit_bias"),
        ({"logit_bias": {str(MODEL.vocab_size): 5}}, "logit_bias"),
        ({"logit_bias": {str(i): 0 for i in range(1025)}}, "logit_bias"),
        ({"seed": 2**63}, "seed"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 1.1}, "min_p"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ],
)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_what_is_wrong_is_named_in_this_apis_words(
    fields: dict[str, Any], param: str, is_streamed: bool
) -> None:
    body = {"input": "Hi", "stream": is_streamed, **fields}
    status, named = await status_and_param(body, CHAT_TEMPLATE)
    assert (status, named) == (400, param)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_output_tokens": 1},
        {"temperature": 2, "top_p": 1, "top_logprobs": 20},
        {"metadata": {f"{i:64}": "b" * 512 for i in range(16)}},
        {"tools": tools(128), "tool_choice": "none"},
        {"stop": ["zzz"] * 128},
        {"min_tokens": 5, "max_output_tokens": 5},
        {"stop_token_ids": [MODEL.vocab_size - 1] * 1024},
        {"logit_bias": {"0": -100, str(MODEL.vocab_size - 1): 100}},
        {"seed": -(2**63), "top_k": -1, "min_p": 1, "ignore_eos": True, "max_output_tokens": 5},
        {"tools": [tool_of(nested(99))], "tool_choice": "none"},
        {"text": {"format": {"type": "text", "schema": nested(100)}}},
    ],
)
async def test_what_is_at_a_limit_is_let_in(fields: dict[str, Any]) -> None:
    body = {"input": "Hi", **fields}
    assert await status_and_param(body, CHAT_TEMPLATE) == (200, None)


async def test_the_templates_own_refusal_names_the_input() -> None:
    template = "{{ raise_exception('No') }}"
    assert await status_and_param({"input": "Hi"}, template) == (400, "input")


async def test_another_method_is_not_allowed() -> None:
    async with http_client_of(engine_that_says(ANSWER)) as client:
        assert (await client.get(URL)).status_code == 405
        assert (await client.get(f"{URL}/resp_1")).status_code == 404


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 130),
        st.floats(0, 2),
        st.just(2**70),
        st.text(max_size=5),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=5,
)
KINDS = ["message", "function_call", "function_call_output", "reasoning", "item_reference"]
ITEMS = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant", ""])},
        optional={
            "type": st.sampled_from(KINDS),
            "content": st.one_of(st.text(max_size=8), VALUES),
            "call_id": st.text(max_size=3),
            "name": st.text(max_size=3),
            "arguments": st.sampled_from(["", "{}", "[", "5"]),
            "output": st.one_of(st.text(max_size=8), VALUES),
        },
    ),
    max_size=4,
)
EMPTY_NEWS = IndexedDelta(0, ChoiceDelta())


def answer_to(body: ResponsesBody, prepared: PreparedRequest) -> list[Any]:
    """The events with which an answer begins."""
    answer = ResponseAnswer(body, prepared, tiny_tokenizer())
    return list(answer.chunks(Generation([]), EMPTY_NEWS))


NAMES = [field.name for field in msgspec.structs.fields(ResponsesBody) if field.name != "input"]


@settings(max_examples=200, deadline=None)
@given(items=ITEMS, fields=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3))
def test_any_body_is_a_request_or_a_clear_error(items: list[Any], fields: dict[str, Any]) -> None:
    data = msgspec.json.encode({"input": items, **fields})
    with contextlib.suppress(RequestError):
        body = decode_body(data, ResponsesBody)
        prepared = prepare_response(INPUTS, body, Arrival(0.0), None)
        assert len(prepared.requests) == 1
        [created, _] = answer_to(body, prepared)
        Response.model_validate_json(msgspec.json.encode(created.response), strict=True)
