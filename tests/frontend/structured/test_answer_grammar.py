"""What clients say of the form of an answer: it reaches the engine as a grammar, or is refused."""

from typing import Any

import httpx
import pytest

from cluster.errors import InvalidRequest
from frontend.openai.schemas import CompletionBody
from frontend.structured.answer_grammar import answer_grammar, grammar_obstacle
from frontend.structured.grammars import (
    choice_grammar,
    ebnf_grammar,
    json_object_grammar,
    json_schema_grammar,
    regex_grammar,
)
from frontend.tokenizer import Tokenizer
from tests.support.frontend_app import engine_that_says, http_client
from tests.support.scripted_engine import ScriptedEngine
from tests.support.tiny_tokenizer import metaspace_backend, tiny_tokenizer

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hello"}]},
    "/v1/completions": {"prompt": "Hello"},
}


def json_schema(**inside: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x"} | inside}}


async def ask(engine: ScriptedEngine, route: str, body: dict[str, Any]) -> httpx.Response:
    async with http_client(engine) as client:
        return await client.post(route, json=ROUTES[route] | body)


async def grammar_of(route: str, body: dict[str, Any]) -> str:
    """The grammar that reaches the engine."""
    engine = engine_that_says("Hello")
    response = await ask(engine, route, body)
    assert response.status_code == 200, response.text
    [request] = engine.submitted
    return request.sampling.grammar


# ── what is taken ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, ""),
        ({"response_format": {"type": "text"}}, ""),
        ({"response_format": None, "structured_outputs": None, "guided_json": None}, ""),
        ({"response_format": {"type": "json_object"}}, json_object_grammar()),
        (json_schema(schema=SCHEMA, strict=True, description="A number."), json_schema_grammar(SCHEMA)),
        ({"structured_outputs": {"json": SCHEMA}}, json_schema_grammar(SCHEMA)),
        ({"structured_outputs": {"regex": "a+"}}, regex_grammar("a+", "")),
        ({"structured_outputs": {"choice": ["a", "b"]}}, choice_grammar(["a", "b"], "")),
        ({"structured_outputs": {"grammar": 'root ::= "a"'}}, ebnf_grammar('root ::= "a"', "")),
        ({"structured_outputs": {"json_object": True}}, json_object_grammar()),
        ({"guided_json": SCHEMA}, json_schema_grammar(SCHEMA)),
        ({"guided_json": '{"type": "integer"}'}, json_schema_grammar({"type": "integer"})),
        ({"guided_regex": "a+"}, regex_grammar("a+", "")),
        ({"guided_choice": ["a", "b"]}, choice_grammar(["a", "b"], "")),
        ({"guided_grammar": 'start: "a"'}, ebnf_grammar('start: "a"', "")),
        ({"response_format": {"type": "text"}, "guided_regex": "a"}, regex_grammar("a", "")),
    ],
    ids=str,
)  # fmt: skip
async def test_every_way_to_say_it_reaches_the_engine(
    route: str, body: dict[str, Any], expected: str
) -> None:
    assert await grammar_of(route, body) == expected


async def test_every_choice_follows_the_grammar() -> None:
    engine = engine_that_says("Hello")
    await ask(engine, "/v1/completions", {"guided_regex": "a", "n": 3})
    assert {request.sampling.grammar for request in engine.submitted} == {regex_grammar("a", "")}


async def test_an_answer_with_a_grammar_ends_with_the_text_whatever_ignore_eos_says() -> None:
    engine = engine_that_says("Hello")
    response = await ask(
        engine, "/v1/completions",
        {"guided_regex": "a", "ignore_eos": True, "skip_special_tokens": False, "max_tokens": 50},
    )  # fmt: skip
    assert engine.submitted[0].sampling.stop_token_ids == [2]
    [choice] = response.json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("Hello", "stop")


# ── what is refused ──────────────────────────────────────────────────────────────────────────

_SCHEMA_PARAM = "response_format.json_schema.schema"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "schema": SCHEMA}}, "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "json_schema": 5}}, "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
     "response_format.json_schema.name"),
    (json_schema(), _SCHEMA_PARAM),
    (json_schema(schema=None), _SCHEMA_PARAM),
    (json_schema(schema=5), _SCHEMA_PARAM),
    (json_schema(schema={"type": "object", "properties": 5}), _SCHEMA_PARAM),
    (json_schema(schema={"type": "notatype"}), _SCHEMA_PARAM),
    (json_schema(schema={"$ref": "#"}), _SCHEMA_PARAM),
    (json_schema(schema={"type": "array", "uniqueItems": True}), _SCHEMA_PARAM),
    ({"response_format": {"type": "bogus"}}, "response_format.type"),
    ({"response_format": {}}, "response_format.type"),
    ({"response_format": 5}, "response_format"),
    ({"structured_outputs": {}}, "structured_outputs"),
    ({"structured_outputs": {"json_object": False}}, "structured_outputs"),
    ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
    ({"structured_outputs": {"json": "5"}}, "structured_outputs.json"),
    ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex"),
    ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
    ({"structured_outputs": {"choice": ["a", 5]}}, "structured_outputs.choice[1]"),
    ({"structured_outputs": {"grammar": "nonsense"}}, "structured_outputs.grammar"),
    ({"structured_outputs": {"structural_tag": {"a": 1}}}, "structured_outputs.structural_tag"),
    ({"structured_outputs": {"regex": "a", "disable_any_whitespace": True}},
     "structured_outputs.disable_any_whitespace"),
    ({"guided_json": {"type": "notatype"}}, "guided_json"),
    ({"guided_regex": "(?=a)"}, "guided_regex"),
    ({"guided_choice": "a"}, "guided_choice"),
    ({"guided_grammar": "root ::= ("}, "guided_grammar"),
    ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.choice"),
    ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
    (json_schema(schema=SCHEMA) | {"guided_regex": "a"}, "guided_regex"),
    ({"structural_tag": "a"}, "structural_tag"),
]  # fmt: skip


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("body", "param"), REFUSED, ids=[str(body) for body, _ in REFUSED])
async def test_a_malformed_form_is_refused_before_an_engine_sees_it(
    route: str, body: dict[str, Any], param: str, is_streamed: bool
) -> None:
    engine = engine_that_says("Hello")
    response = await ask(engine, route, body | {"stream": is_streamed})
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["param"] == param
    assert not engine.submitted


async def test_a_schema_that_is_beside_its_place_is_told_where_that_is() -> None:
    body = {"response_format": {"type": "json_schema", "schema": SCHEMA}}
    response = await ask(engine_that_says("Hello"), "/v1/completions", body)
    assert "inside" in response.json()["error"]["message"]


# ── models that cannot be held to anything ───────────────────────────────────────────────────


def test_a_model_without_bytes_or_without_an_end_cannot_follow_grammars() -> None:
    assert not grammar_obstacle(tiny_tokenizer(), {2})
    assert grammar_obstacle(tiny_tokenizer(), set())
    assert grammar_obstacle(Tokenizer(metaspace_backend()), {2})


def test_a_form_is_refused_where_there_is_an_obstacle_and_nothing_else_is() -> None:
    with pytest.raises(InvalidRequest, match="no end") as caught:
        answer_grammar(CompletionBody(prompt="a", guided_regex="a"), "it has no end")
    assert caught.value.param == "guided_regex"
    assert answer_grammar(CompletionBody(prompt="a"), "it has no end") == ""
