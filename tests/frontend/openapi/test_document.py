"""The OpenAPI document: sound, whole, and true."""

import json
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from cluster.config import FrontendConfig
from cluster.errors import InvalidRequest
from frontend.openai.decoding import decode_body
from frontend.openai.schemas import ChatBody, CompletionBody, GenerationBody
from frontend.openapi.documentation import make_documentation
from frontend.request_limits import RequestLimits
from tests.support.frontend_app import ANSWER, engine_that_says, events_of, http_client

LIMITS = RequestLimits.of(FrontendConfig())
DOCUMENT: dict[str, Any] = msgspec.json.decode(make_documentation(LIMITS).openapi)
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
MESSAGES = [{"role": "user", "content": "Hi"}]


def validator(name: str) -> Any:
    root = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    return Draft202012Validator(root)


def complaint_of(body: dict[str, Any], body_type: type[GenerationBody]) -> InvalidRequest | None:
    try:
        decode_body(json.dumps(body).encode(), body_type)
    except InvalidRequest as error:
        return error
    return None


def references_in(node: Any) -> list[str]:
    if isinstance(node, list):
        return [reference for item in node for reference in references_in(item)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + references_in(list(node.values()))


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_a_sound_one(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])


def test_every_reference_leads_somewhere_and_every_schema_is_used() -> None:
    names = {reference.rpartition("/")[2] for reference in references_in(DOCUMENT)}
    assert names == set(SCHEMAS)


def test_every_operation_says_what_it_does_and_what_it_needs() -> None:
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            assert operation["summary"], path
            assert ("401" in operation["responses"]) == bool(operation["security"]), path
    assert DOCUMENT["paths"]["/cluster/drain"]["post"]["security"] == [{"admin_key": []}]
    assert DOCUMENT["paths"]["/health"]["get"]["security"] == []


def test_fields_carry_their_limits_and_the_texts_below_them() -> None:
    temperature = SCHEMAS["ChatBody"]["properties"]["temperature"]
    assert {"type": "number", "minimum": 0, "maximum": 2} in temperature["anyOf"]
    assert temperature["description"].startswith("0 is greedy.")


def test_fields_that_are_always_refused_are_left_out() -> None:
    assert "use_beam_search" not in SCHEMAS["CompletionBody"]["properties"]
    assert "suffix" not in SCHEMAS["CompletionBody"]["properties"]


async def test_limits_that_are_settings_are_those_of_this_server() -> None:
    async with http_client(engine_that_says(ANSWER), max_messages=3, max_tools=2) as client:
        schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
        fields = schemas["ChatBody"]["properties"]
        assert (fields["messages"]["minItems"], fields["messages"]["maxItems"]) == (1, 3)
        assert fields["tools"]["anyOf"][0]["maxItems"] == 2
        for count, status in ((3, 200), (4, 400)):
            body = {"messages": MESSAGES * count, "max_tokens": 1}
            assert (await client.post("/v1/chat/completions", json=body)).status_code == status


LIMITED: list[tuple[type[GenerationBody], str, Any, bool]] = [
    (body_type, field, value, is_taken)
    for body_type in (ChatBody, CompletionBody)
    for field, taken, refused in [
        ("temperature", (0, 2), (-0.001, 2.001)),
        ("top_p", (0.001, 1), (0, 1.001)),
        ("top_k", (-1, 10**6), (-2,)),
        ("min_p", (0, 1), (-0.001, 1.001)),
        ("presence_penalty", (-2, 2), (-2.001, 2.001)),
        ("frequency_penalty", (-2, 2), (-2.001, 2.001)),
        ("repetition_penalty", (0.001, 1e6), (0, 1e6 + 1)),
        ("seed", (-(2**63), 2**63 - 1), (-(2**63) - 1, 2**63)),
        ("n", (1,), (0,)),
        ("prompt_logprobs", (0, 20), (-1, 21)),
        ("truncate_prompt_tokens", (-1,), (-2,)),
        ("priority", (1 - 2**31, 2**31 - 1), (-(2**31), 2**31)),
        ("data_parallel_rank", (0, 2**31 - 1), (-1, 2**31)),
        ("cache_salt", ("a", "a" * 128), ("", "a" * 129, "a/b", "a\0")),
        ("stop", ("a", [], ["a"]), ("", ["a", ""])),
        ("stop_token_ids", ([0] * 1024,), ([0] * 1025, [-1])),
        ("bad_words", (["a"] * 1024,), (["a"] * 1025, [""])),
        ("allowed_token_ids", ([0],), ([], [-1])),
        ("logit_bias", ({"1": -100, "2": 100},), ({"1": -100.1}, {"1": 100.1})),
        ("logit_bias", ({str(i): 0 for i in range(1024)},), ({str(i): 0 for i in range(1025)},)),
    ]
    for values, is_taken in ((taken, True), (refused, False))
    for value in values
]
LIMITED += [
    (ChatBody, "max_tokens", 1, True),
    (ChatBody, "max_tokens", 0, False),
    (ChatBody, "max_completion_tokens", 1, True),
    (ChatBody, "max_completion_tokens", 0, False),
    (ChatBody, "top_logprobs", 20, True),
    (ChatBody, "top_logprobs", 21, False),
    (ChatBody, "messages", [], False),
    (CompletionBody, "max_tokens", 0, True),
    (CompletionBody, "max_tokens", -1, False),
    (CompletionBody, "logprobs", 20, True),
    (CompletionBody, "logprobs", 21, False),
    (CompletionBody, "prompt", [[0], "a"], True),
    (CompletionBody, "prompt", [], False),
    (CompletionBody, "prompt", [[]], False),
    (CompletionBody, "prompt", [-1], False),
]


@pytest.mark.parametrize(
    ("body_type", "field", "value", "is_taken"),
    LIMITED,
    ids=[f"{kind.__name__}-{field}-{i}" for i, (kind, field, _, _) in enumerate(LIMITED)],
)
def test_the_document_and_the_server_draw_the_same_line(
    body_type: type[GenerationBody], field: str, value: Any, is_taken: bool
) -> None:
    body: dict[str, Any] = {"messages": MESSAGES, "prompt": "Hi"} | {field: value}
    assert validator(body_type.__name__).is_valid(body) == is_taken
    complaint = complaint_of(body, body_type)
    assert (complaint is None) == is_taken
    if complaint is not None:
        assert complaint.param == field
        assert complaint.message.startswith(field)


async def test_answers_are_as_the_document_says_whole_and_streamed() -> None:
    wanted = {"n": 2, "return_token_ids": True, "prompt_logprobs": 1}
    cases = [
        ("/v1/chat/completions", {"messages": MESSAGES, "logprobs": True, "top_logprobs": 2},
         "ChatCompletion", "ChatCompletionChunk"),
        ("/v1/completions", {"prompt": "Hi", "logprobs": 2}, "Completion", "Completion"),
    ]  # fmt: skip
    async with http_client(engine_that_says(ANSWER)) as client:
        for path, body, whole, event in cases:
            answer = await client.post(path, json=body | wanted)
            validator(whole).validate(answer.json())
            asked = body | {"stream": True, "n": 2, "stream_options": {"include_usage": True}}
            for chunk in events_of(await client.post(path, json=asked)):
                validator(event).validate(chunk)


async def test_errors_are_as_the_document_says() -> None:
    refs = {
        path: operations["post"]["responses"]["400"]["content"]["application/json"]["schema"]
        for path, operations in DOCUMENT["paths"].items()
        if "post" in operations and "400" in operations["post"]["responses"]
    }
    async with http_client(engine_that_says(ANSWER), admin_key=["a"]) as client:
        for path, schema in refs.items():
            headers = {"authorization": "Bearer a", "content-type": "application/json"}
            answer = await client.post(path, content=b"5", headers=headers)
            assert answer.status_code == 400
            validator(schema["$ref"].rpartition("/")[2]).validate(answer.json())
