"""Which texts a grammar stands for, and what is refused before any engine hears of it."""

import contextlib
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from cluster.errors import InvalidRequest
from frontend.structured.grammar_check import _LIMITS, MAX_GRAMMAR_CHARACTERS
from frontend.structured.grammars import (
    MAX_CHOICES,
    choice_grammar,
    ebnf_grammar,
    json_object_grammar,
    json_schema_grammar,
    regex_grammar,
)
from frontend.structured.schema_check import MAX_SCHEMA_DEPTH

POINT = {
    "type": "object",
    "properties": {"y": {"type": "integer"}, "x": {"type": "array", "items": {"type": "string"}}},
    "required": ["y", "x"],
    "additionalProperties": False,
}


@cache
def _single_bytes() -> LLTokenizer:
    return LLTokenizer("byte")


def is_text_of(grammar: str, text: str) -> bool:
    """Whether the whole text is one that the grammar stands for."""
    matcher, token_ids = (
        LLMatcher(_single_bytes(), grammar, log_level=0, limits=_LIMITS),
        list(text.encode()),
    )
    return matcher.try_consume_tokens(token_ids) == len(token_ids) and matcher.is_accepting()


# ── what is taken ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("indent", [None, 0, 2, 4])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_json_may_be_written_compact_spaced_or_indented(
    indent: int | None, separators: tuple[str, str]
) -> None:
    text = json.dumps({"y": -5, "x": ["a", "b\n"]}, indent=indent, separators=separators)
    assert is_text_of(json_schema_grammar(POINT), text)


@pytest.mark.parametrize(
    "text",
    ['{"y":1,"x":[5]}', '{"y":1}', '{"y":1.5,"x":[]}', '{"y":1,"x":[]', "", '{"y":1,"x":[]} ',
     '{"y":1,"x":[],"z":0}', '{"y":1,\n\n\n\n"x":[]}', '{"y":    1,"x":[]}'],
)  # fmt: skip
def test_json_that_is_not_of_the_schema_is_not_of_its_grammar(text: str) -> None:
    assert not is_text_of(json_schema_grammar(POINT), text)


def test_properties_come_in_the_schemas_order() -> None:
    assert not is_text_of(json_schema_grammar(POINT), '{"x":[],"y":1}')


def test_a_schema_may_refer_to_itself_below_an_object() -> None:
    chain = {"$ref": "#/$defs/link", "$defs": {"link": {
        "type": "object", "properties": {"next": {"$ref": "#/$defs/link"}},
        "additionalProperties": False}}}  # fmt: skip
    assert is_text_of(json_schema_grammar(chain), '{"next":{"next":{}}}')


def test_what_is_data_in_a_schema_is_not_read_as_one() -> None:
    grammar = json_schema_grammar({"enum": [{"$ref": "#/enum/0"}]})
    assert is_text_of(grammar, '{"$ref":"#/enum/0"}')


def test_any_object_is_a_json_object_and_nothing_else_is() -> None:
    grammar = json_object_grammar()
    assert is_text_of(grammar, '{"a": {"b": [1, 2.5e3, null, true, "\\n"]}}')
    assert not is_text_of(grammar, "[1]")


@pytest.mark.parametrize(
    ("regex", "text", "matches"),
    [("[0-9]{3}", "012", True), ("[0-9]{3}", "0123", False), ("^a|b$", "b", True), ("a.c", "a\nc", False),
     ("(yes|no)!*", "no!!", True), ("", "", True), ("a/b", "a/b", True)],
)  # fmt: skip
def test_a_regular_expression_matches_the_whole_text(regex: str, text: str, matches: bool) -> None:
    assert is_text_of(regex_grammar(regex, "regex"), text) is matches


@pytest.mark.parametrize(
    "choice", ["yes", 'say "yes"', "back\\slash", "ja\nnein", "\u0000", "😀 ", ""]
)
def test_a_choice_is_the_text_itself_whatever_is_in_it(choice: str) -> None:
    grammar = choice_grammar([choice, "other"], "choice")
    assert is_text_of(grammar, choice)
    assert is_text_of(grammar, "other")
    assert not is_text_of(grammar, choice + "?")


@pytest.mark.parametrize(
    "grammar",
    ['root ::= sum\nsum ::= [0-9]+ ("+" sum)?', "start: NUMBER (\"+\" NUMBER)*\nNUMBER: /[0-9]+/"],
    ids=["gbnf", "lark"],
)  # fmt: skip
def test_a_grammar_is_read_in_either_syntax(grammar: str) -> None:
    own_form = ebnf_grammar(grammar, "grammar")
    assert is_text_of(own_form, "1+22+3")
    assert not is_text_of(own_form, "1+")


# ── what is refused ──────────────────────────────────────────────────────────────────────────

_REFERS_TO_ITSELF: list[dict[str, Any]] = [
    {"$ref": "#"},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    {"properties": {"x": {"$ref": "#/properties/x"}}, "required": ["x"]},
    {"properties": {"x": {"$ref": "#/$defs/a~1b%20c"}}, "$defs": {"a/b c": {"$ref": "#/$defs/a~1b%20c"}}},
    {"allOf": [{"$ref": "#"}]},
    {"anyOf": [{"$ref": "#"}]},
]  # fmt: skip
_MALFORMED: list[dict[str, Any]] = [
    {"type": "object", "properties": 5},
    {"type": "notatype"},
    {"type": 5},
    {"enum": []},
    {"enum": 5},
    {"items": 5},
    {"required": "a"},
    {"type": "integer", "minimum": "x"},
    {"$ref": "#/nowhere"},
    {"$ref": "https://example.com/schema.json"},
    {"type": "string", "pattern": "[a"},
]
_NOT_ENFORCED: list[dict[str, Any]] = [
    {"type": "array", "uniqueItems": True},
    {"not": {"type": "string"}},
    {"if": {"type": "string"}, "then": {"minLength": 1}},
    {"propertyNames": {"pattern": "^a"}},
    {"oneOf": [{"type": "number"}, {"type": "integer"}]},
    {"type": "string", "format": "bogus"},
    {"type": "string", "pattern": "(?=a)b"},
]
_IMPOSSIBLE: list[dict[str, Any]] = [
    {"type": "integer", "minimum": 5, "maximum": 3},
    {"type": "object", "required": ["x"], "additionalProperties": False},
    {"allOf": [{"type": "string"}, {"type": "integer"}]},
]


@pytest.mark.parametrize(
    "schema", [*_REFERS_TO_ITSELF, *_MALFORMED, *_NOT_ENFORCED, *_IMPOSSIBLE], ids=str
)
def test_a_schema_that_cannot_be_enforced_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        json_schema_grammar(schema, "here")
    assert caught.value.param == "here"


def nested(depth: int) -> dict[str, Any]:
    """The schema of arrays of arrays, so many levels of it."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth - 1):
        schema = {"type": "array", "items": schema}
    return schema


def test_the_deepest_schema_that_is_let_in_can_be_built() -> None:
    json_schema_grammar(nested(MAX_SCHEMA_DEPTH))
    with pytest.raises(InvalidRequest, match="nested"):
        json_schema_grammar(nested(MAX_SCHEMA_DEPTH + 1))


def chain_of_references(num_links: int, levels: int) -> dict[str, Any]:
    links: dict[str, Any] = {}
    for i in range(num_links):
        link: dict[str, Any] = {"$ref": f"#/$defs/a{i + 1}"}
        for _ in range(levels):
            link = {"allOf": [link]}
        links[f"a{i}"] = link
    return {"$ref": "#/$defs/a0", "$defs": links | {f"a{num_links}": {"type": "string"}}}


def chain_of_rules(num_rules: int) -> str:
    rules = "\n".join(f"a{i}:a{i + 1}" for i in range(num_rules))
    return f'start:a0\n{rules}\na{num_rules}:"x"'


@pytest.mark.parametrize(
    "build",
    [
        lambda: json_schema_grammar(chain_of_references(1800, 0)),
        lambda: json_schema_grammar(chain_of_references(120, 40)),
        lambda: ebnf_grammar(chain_of_rules(4800), "grammar"),
    ],
    ids=["references", "deep references", "rules"],
)
def test_what_a_common_stack_is_too_small_for_is_built(build: Callable[[], str]) -> None:
    assert len(build()) < 2 * MAX_GRAMMAR_CHARACTERS


DEEP = 30_000
DOUBLING = "\n".join(f"A{i}: A{i + 1} A{i + 1}" for i in range(60))


@pytest.mark.parametrize(
    "build",
    [
        lambda: ebnf_grammar(f"root ::= {'(' * DEEP}\"a\"{')' * DEEP}", "grammar"),
        lambda: ebnf_grammar(f"start: {'(' * DEEP}\"a\"{')' * DEEP}", "grammar"),
        lambda: regex_grammar("(" * DEEP + "a" + ")" * DEEP, "regex"),
        lambda: json_schema_grammar({"properties": {f"p{i}": {} for i in range(3000)}}),
        lambda: ebnf_grammar(f'start: A0\n{DOUBLING}\nA60: "x"', "grammar"),
        lambda: regex_grammar("a" * MAX_GRAMMAR_CHARACTERS, "regex"),
        lambda: ebnf_grammar('start: "' + "a" * MAX_GRAMMAR_CHARACTERS + '"', "grammar"),
        lambda: json_schema_grammar({"description": "a" * MAX_GRAMMAR_CHARACTERS}),
        lambda: choice_grammar(["a" * MAX_GRAMMAR_CHARACTERS], "choice"),
        lambda: choice_grammar([str(i) for i in range(MAX_CHOICES + 1)], "choice"),
        lambda: choice_grammar([], "choice"),
    ],
    ids=["deep gbnf", "deep lark", "deep regex", "properties", "doubling", "long regex",
         "long grammar", "long schema", "long choice", "many choices", "no choice"],
)  # fmt: skip
def test_what_would_take_too_much_is_refused_in_a_few_words(build: Callable[[], str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        build()
    assert len(caught.value.message) < 400


def test_the_words_of_an_error_are_the_librarys_first_and_not_its_state() -> None:
    with pytest.raises(InvalidRequest) as caught:
        regex_grammar("a" * 5000 + "(?=b)", "regex")
    assert caught.value.message.startswith("regex: the regular expression cannot be used: ")
    assert len(caught.value.message) < 300
    assert "non-verbose" not in caught.value.message


@pytest.mark.parametrize("grammar", ["hello", "root ::= (", "start: x", 'root ::= root "a"', ""])
def test_a_malformed_grammar_is_refused(grammar: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ebnf_grammar(grammar, "guided_grammar")
    assert caught.value.param == "guided_grammar"


_KEYWORDS = (
    "type", "properties", "required", "items", "prefixItems", "enum", "const", "anyOf", "allOf",
    "oneOf", "$ref", "$defs", "pattern", "format", "minimum", "maximum", "multipleOf", "minLength",
    "maxLength", "minItems", "maxItems", "additionalProperties", "x-guidance", "$id", "$schema",
)  # fmt: skip
_VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 2**66), st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=3), st.sampled_from(["#", "#/$defs/a", "object", "string", "array", "integer", "date"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(_KEYWORDS), st.just("a")), inner, max_size=4),
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(schema=st.dictionaries(st.sampled_from(_KEYWORDS), _VALUES, max_size=5))
def test_any_schema_is_a_grammar_or_a_clear_error(schema: dict[str, Any]) -> None:
    with contextlib.suppress(InvalidRequest):
        assert json_schema_grammar(schema)


@settings(max_examples=100, deadline=None)
@given(text=st.text('abAB01:=|()[]{}<>"/\\ .*+?^$-,%#\n', max_size=30))
def test_any_text_is_a_grammar_or_a_clear_error(text: str) -> None:
    for make in (regex_grammar, ebnf_grammar):
        with contextlib.suppress(InvalidRequest):
            assert make(text, "here")
        with contextlib.suppress(InvalidRequest):
            assert make("start: " + text, "here")


@pytest.mark.parametrize("num_properties", [100, 600])
def test_many_properties_that_may_be_left_out_do_not_fail_later(num_properties: int) -> None:
    schema = {"properties": {f"p{i}": {"type": "null"} for i in range(num_properties)},
              "additionalProperties": False}  # fmt: skip
    text = '{"p1":null,"p7":null,"p99":null}'
    assert is_text_of(json_schema_grammar({"type": "object"} | schema), text)
