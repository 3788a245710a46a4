"""How a refusal is worded: the field, then what it may be."""

import json
from typing import Any

import pytest

from cluster.errors import InvalidRequest
from frontend.openai.decoding import convert_body, decode_body
from frontend.openai.decoding_words import allowed_values
from frontend.openai.schemas import ChatBody, CompletionBody, GenerationBody

MESSAGES = [{"role": "user", "content": "Hi"}]


def complaint(body_type: type[GenerationBody] = ChatBody, **fields: Any) -> InvalidRequest:
    body = {"messages": MESSAGES, "prompt": "Hi", **fields}
    with pytest.raises(InvalidRequest) as caught:
        decode_body(json.dumps(body).encode(), body_type)
    return caught.value


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"temperature": 2.5}, "temperature must be at most 2"),
        ({"temperature": -1}, "temperature must be at least 0"),
        ({"top_p": 0}, "top_p must be above 0"),
        ({"n": 0}, "n must be at least 1"),
        ({"seed": 2**63}, "seed must be at most 9223372036854775807"),
        ({"messages": []}, "messages must not be empty"),
        ({"cache_salt": "a" * 129}, "cache_salt must have at most 128 characters"),
        ({"cache_salt": "a@b"}, "cache_salt must not contain @, /, \\ or NUL"),
        ({"bad_words": ["a"] * 1025}, "bad_words must have at most 1024 items"),
        (
            {"logit_bias": {str(i): 0 for i in range(1025)}},
            "logit_bias must have at most 1024 entries",
        ),
        ({"logit_bias": {"5": 101}}, "logit_bias must be at most 100"),
        (
            {"response_format": {"type": "xml"}},
            "response_format.type must be one of json_object, json_schema, text, not 'xml'",
        ),
        (
            {"tools": [{"function": {"name": "a b"}}]},
            "tools[0].function.name must be 1 to 64 letters, digits, _ and -",
        ),
        ({"n": "2"}, "n: expected `int | null`, got `str`"),
    ],
)
def test_a_complaint_names_the_field_and_its_limit(fields: dict[str, Any], words: str) -> None:
    assert complaint(**fields).message == words


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"stop": ["a", ""]}, "stop", "stop[1] must not be empty"),
        ({"prompt": [[1], [2, -1]]}, "prompt", "prompt[1][1] must be at least 0"),
        ({"stop": ["a", 5]}, "stop[1]", "stop[1]: expected `str`, got `int`"),
    ],
)
def test_an_item_out_of_its_limits_is_told_of_the_whole_list(
    fields: dict[str, Any], param: str, words: str
) -> None:
    error = complaint(CompletionBody, **fields)
    assert (error.param, error.message) == (param, words)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_refused_however_it_comes(number: float) -> None:
    complaint(temperature=number)
    with pytest.raises(InvalidRequest):
        convert_body({"messages": MESSAGES, "temperature": number}, ChatBody)


def test_a_number_too_great_for_a_float_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_body(b'{"prompt": "Hi", "temperature": 1e999}', CompletionBody)
    assert caught.value.param == "temperature"


def test_the_values_of_a_field_are_found_inside_of_lists_and_alternatives() -> None:
    assert allowed_values(ChatBody, "tools[3].type") == ("function",)
    assert allowed_values(ChatBody, "tool_choice") == ("auto", "none", "required")
    assert allowed_values(ChatBody, "messages[0].role") == ()
    assert allowed_values(ChatBody, "no.such.field") == ()
