"""C20: a form of the answer that is malformed, or cannot be enforced, is refused before an engine.

vllm#35438, vllm#17248, vllm#28113, TGI#2280, LocalAI#2938, llama.cpp#23463.
"""

from typing import Any

import httpx

from tests.support.scripted_engine import ScriptedEngine
from tests.support.ways import Way, check_refused

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}


def schema_format(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


MALFORMED: list[Any] = [
    5,
    "json_object",
    [],
    {},
    {"type": None},
    {"type": "bogus"},
    {"type": "JSON_OBJECT"},
    {"type": "json_schema"},
    {"type": "json_schema", "json_schema": None},
    {"type": "json_schema", "json_schema": {}},
    {"type": "json_schema", "json_schema": {"name": "s"}},
    {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
    {"type": "json_schema", "schema": SCHEMA},
    schema_format(5),
    schema_format("{"),
    schema_format(True),
    schema_format({"type": "object", "properties": 5}),
    schema_format({"type": "notatype"}),
    schema_format({"type": 5}),
    schema_format({"$ref": "#"}),
    schema_format({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
    schema_format({"$ref": "#/$defs/missing"}),
    schema_format({"$ref": "http://elsewhere/schema.json"}),
    schema_format({"type": "string", "pattern": "(["}),
    schema_format({"enum": []}),
    schema_format({"type": "object", "required": 5}),
    schema_format({"type": "array", "items": 5}),
    schema_format({"type": "integer", "minimum": "x"}),
    schema_format({"type": "array", "minItems": 5, "maxItems": 2}),
    schema_format(nested(400)),
]


RIGHT: list[Any] = [
    None,
    {"type": "text"},
    {"type": "json_object"},
    schema_format(SCHEMA),
    schema_format({}),
    schema_format(nested(20)),
    schema_format({"$ref": "#/$defs/a", "$defs": {"a": SCHEMA}}),
    schema_format(
        {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}
    ),
]
OTHER_WORDS: list[tuple[dict[str, Any], str]] = [
    ({"structured_outputs": {}}, "structured_outputs"),
    ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
    ({"structured_outputs": {"regex": "(["}}, "structured_outputs.regex"),
    ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
    ({"structured_outputs": {"grammar": "root = ("}}, "structured_outputs.grammar"),
    ({"guided_json": "5"}, "guided_json"),
    ({"guided_regex": "[" * 50}, "guided_regex"),
    ({"guided_choice": []}, "guided_choice"),
    ({"guided_grammar": ""}, "guided_grammar"),
    (
        {"guided_regex": "a", "response_format": {"type": "json_object"}},
        "guided_regex",
    ),
]


async def test_what_is_malformed_is_refused_and_the_next_request_served(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    for wanted in MALFORMED:
        answer = await way.send(client, response_format=wanted)
        assert answer.status_code == 400, (wanted, answer.text)
        param = answer.json()["error"]["param"]
        assert param is not None, wanted
        assert param.startswith("response_format"), wanted
        check_refused(answer, param)
    assert not engine.submitted
    await way.ask(client)


async def test_what_is_right_is_taken(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    for wanted in RIGHT:
        await way.ask(client, response_format=wanted)
        is_free = wanted in (None, {"type": "text"})
        assert bool(engine.submitted[-1].sampling.grammar) is not is_free, wanted


async def test_the_same_in_other_words(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    for fields, param in OTHER_WORDS:
        check_refused(await way.send(client, **fields), param)
    assert not engine.submitted
