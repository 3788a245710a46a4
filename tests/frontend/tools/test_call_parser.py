"""Each way to write calls, whole and cut, well formed and not."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontend.tools.pieces import CallArguments, CallBegins, ContentPiece
from frontend.tools.tool_formats import TOOL_FORMATS
from tests.frontend.tools.cutting import calls_of, content_of, cut, cut_text, parse

WEATHER = '{"city": "Köln", "days": [1, 2], "deep": {"a": "}{"}}'
ONE = '{"name": "weather", "arguments": ' + WEATHER + "}"
TWO = '{"name": "now", "parameters": {}}'
BOTH = [("weather", WEATHER), ("now", "{}")]
PYTHON = json.dumps(json.loads(WEATHER), ensure_ascii=False)

WELL_FORMED = [
    ("hermes", f"<tool_call>\n{ONE}\n</tool_call>", "", BOTH[:1]),
    ("hermes", f"<tool_call>\n{ONE}\n</tool_call>\n<tool_call>{TWO}</tool_call>\n", "", BOTH),
    ("hermes", f"I look.\n<tool_call>{ONE}</tool_call>", "I look.\n", BOTH[:1]),
    ("hermes", f"\n\n<tool_call>{ONE}</tool_call> Done.", " Done.", BOTH[:1]),
    ("hermes", f"<tool_call>{ONE}", "", BOTH[:1]),
    ("hermes", f"<tool_call>{ONE}</tool", "", BOTH[:1]),
    ("hermes", f"<tool_call>{ONE[:-1]}</tool_call>", "", BOTH[:1]),
    ("hermes", f"<tool_call>{ONE}<tool_call>{TWO}</tool_call>", "", BOTH),
    ("llama3_json", ONE, "", BOTH[:1]),
    ("llama3_json", f"<|python_tag|>{ONE}; {TWO}", "", BOTH),
    ("llama3_json", f" {ONE};\n<|python_tag|>{TWO}", "", BOTH),
    ("llama3_json", f"So: <|python_tag|>{ONE}", "So: ", BOTH[:1]),
    ("llama3_json", f"{ONE}; and so", "; and so", BOTH[:1]),
    ("mistral", f"[TOOL_CALLS] [{ONE}, {TWO}]", "", BOTH),
    ("mistral", f"Yes.[TOOL_CALLS][{ONE}] Well", "Yes. Well", BOTH[:1]),
    ("mistral", f"[TOOL_CALLS]weather{WEATHER}[TOOL_CALLS]now{{}}", "", BOTH),
    ("mistral", f"[TOOL_CALLS]weather[ARGS]{WEATHER}", "", BOTH[:1]),
    ("mistral", f"[TOOL_CALLS]weather[CALL_ID]a1B2c3D4e[ARGS]{WEATHER}", "", BOTH[:1]),
    ("mistral", f"[TOOL_CALLS]{ONE}", "", BOTH[:1]),
    ("pythonic", "[weather(**x), now()]", "[weather(**x), now()]", []),
    ("pythonic", "[now(), now()]", "", [("now", "{}")] * 2),
    ("pythonic", "[f(a=true, b=None, c='\\')', d=[{'x': -1.5}])] ok", " ok",
     [("f", '{"a": true, "b": null, "c": "\')", "d": [{"x": -1.5}]}')]),
    ("pythonic", f"[weather(all={PYTHON})]", "", [("weather", f'{{"all": {PYTHON}}}')]),
    ("pythonic", "[a.b(x=1)]", "", [("a.b", '{"x": 1}')]),
    ("json", f"[{ONE},{TWO}]", "", BOTH),
    ("json", f" \n{ONE}", "", BOTH[:1]),
    ("json", '{"arguments": {"a": 1}, "type": "function", "id": "x", "name": "f"}', "",
     [("f", '{"a": 1}')]),
    ("json", '{"name": "f", "arguments": "{\\"a\\": 1}"}', "", [("f", '{"a": 1}')]),
    ("json", f"[{ONE},", "", BOTH[:1]),
    ("json", f"[{ONE}, 5]", ", 5]", BOTH[:1]),
]  # fmt: skip

NO_CALLS = [
    ("hermes", "a < b <tool <tool_call"),
    ("hermes", "<tool_call>"),
    ("hermes", "<tool_call>\nnothing here</tool_call>"),
    ("hermes", '<tool_call>{"name": "f"}</tool_call>'),
    ("hermes", '<tool_call>{"name": "f", "arguments": [1]}</tool_call>'),
    ("hermes", '<tool_call>{"name": "", "arguments": {}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "f", "arguments": "no object"}</tool_call>'),
    ("hermes", '<tool_call>{"name": "f", "argum'),
    ("hermes", '<tool_call>{"name": "\\ud800", "arguments": {}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "f", "arguments": "{\\"a\\": \\"\\ud800\\"}"}</tool_call>'),
    ("pythonic", "[f(a='\\ud800')]"),
    ("hermes", ONE),
    ("llama3_json", '{"answer": 42}'),
    ("llama3_json", f"It is {ONE}"),
    ("llama3_json", "<|python_tag|>print(1)"),
    ("mistral", "[TOOL_CALLS] []"),
    ("mistral", "[TOOL_CALLS]no call at all"),
    ("mistral", "[TOOL_CALLS]" + "f" * 300 + "{}"),
    ("mistral", "[TOOL_CALLS][ARGS]{}"),
    ("pythonic", "[1, 2, 3]"),
    ("pythonic", "[f(1)]"),
    ("pythonic", "[f(a=1, a=2)]"),
    ("pythonic", "[f(a=g())]"),
    ("pythonic", "[f(a=1e999)]"),
    ("pythonic", "[f(a={1, 2})]"),
    ("pythonic", "[f(a=1"),
    ("pythonic", "f(a=1)"),
    ("json", "[]"),
    ("json", "[[1]]"),
    ("json", '{"name": "Ada", "born": 1815}'),
    ("json", '{"name": "f", "name": "g", "arguments": {}}'),
    ("json", "  "),
    ("json", ""),
]


@pytest.mark.parametrize(("name", "text", "content", "calls"), WELL_FORMED)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_calls_are_told_from_content_wherever_the_text_is_cut(
    name: str, text: str, content: str, calls: list[tuple[str, str]], data: Any
) -> None:
    pieces = parse(TOOL_FORMATS[name].new_parser(), data.draw(cut_text(text)))
    assert calls_of(pieces) == calls
    assert content_of(pieces) == content


@pytest.mark.parametrize(("name", "text"), NO_CALLS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_what_is_no_call_is_content_to_the_last_character(name: str, text: str, data: Any) -> None:
    pieces = parse(TOOL_FORMATS[name].new_parser(), data.draw(cut_text(text)))
    assert pieces == ([ContentPiece(text)] if text else [])


FRAGMENTS = st.lists(
    st.sampled_from([
        "<tool_call>", "</tool_call>", "<tool_", "<|python_tag|>", "[TOOL_CALLS]", "[", "]", ",", ";",
        " ", "\n", "{", "}", '"', "x", "now{}", "f(a=1)", "(", ONE, TWO, ONE[:20], ONE[20:], '"name"',
        "[ARGS]", "[CALL_ID]",
    ]),
    max_size=10,
).map("".join)  # fmt: skip


@pytest.mark.parametrize("name", TOOL_FORMATS)
@settings(deadline=None)
@given(parts=cut(FRAGMENTS))
def test_how_a_text_is_cut_changes_nothing(name: str, parts: list[str]) -> None:
    new_parser = TOOL_FORMATS[name].new_parser
    assert parse(new_parser(), parts) == parse(new_parser(), ["".join(parts)])


OBJECTS = st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=3)
CALLS = st.tuples(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), OBJECTS.map(json.dumps))
PROSE = st.text('abc .{}"<', min_size=1).map("so {} then".format)

WRITERS: dict[str, Callable[[str, str], str]] = {
    "hermes": '<tool_call>\n{{"name": "{}", "arguments": {}}}\n</tool_call>'.format,
    "llama3_json": '<|python_tag|>{{"name": "{}", "parameters": {}}}'.format,
    "mistral": "[TOOL_CALLS]{}[ARGS]{}".format,
}


@pytest.mark.parametrize("name", WRITERS)
@settings(deadline=None)
@given(data=st.data(), answer=st.lists(PROSE | CALLS, max_size=6))
def test_no_character_of_prose_or_calls_is_lost_or_doubled(
    name: str, data: Any, answer: list[str | tuple[str, str]]
) -> None:
    text = "".join(item if isinstance(item, str) else WRITERS[name](*item) for item in answer)
    pieces = parse(TOOL_FORMATS[name].new_parser(), data.draw(cut_text(text)))
    assert content_of(pieces) == "".join(item for item in answer if isinstance(item, str))
    assert calls_of(pieces) == [item for item in answer if not isinstance(item, str)]


@pytest.mark.parametrize("name", TOOL_FORMATS)
@settings(deadline=None)
@given(text=st.text("abc .!\n{[<(", min_size=1))
def test_a_text_without_calls_is_its_own_content(name: str, text: str) -> None:
    assert parse(TOOL_FORMATS[name].new_parser(), text) == [ContentPiece(text)]


def test_content_is_held_back_only_while_it_may_be_a_call() -> None:
    parser = TOOL_FORMATS["hermes"].new_parser()
    assert parser.feed("Well, <tool") == [ContentPiece("Well, ")]
    assert parser.feed("box>") == [ContentPiece("<toolbox>")]


def test_a_bare_object_is_held_back_only_until_a_member_no_call_has() -> None:
    parser = TOOL_FORMATS["json"].new_parser()
    assert parser.feed('{"answer') == []
    assert parser.feed('": ') == [ContentPiece('{"answer": ')]


def test_arguments_are_told_as_they_come() -> None:
    parser = TOOL_FORMATS["hermes"].new_parser()
    assert parser.feed('<tool_call>{"name": "f", "argum') == []
    assert parser.feed('ents": {"a') == [CallBegins(0, "f"), CallArguments(0, '{"a')]
    assert parser.feed('": 1') == [CallArguments(0, '": 1')]
    assert parser.feed("}}</tool_call>") == [CallArguments(0, "}")]
    assert parser.finish() == []


def test_arguments_that_break_leave_the_rest_as_content() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": nope}}</tool_call>'
    pieces = parse(TOOL_FORMATS["hermes"].new_parser(), [text])
    assert calls_of(pieces) == [("f", '{"a": n')]
    assert content_of(pieces) == "ope}}</tool_call>"


def test_a_call_behind_a_broken_one_is_found() -> None:
    text = f'<tool_call>{{"name": <tool_call>{ONE}</tool_call>'
    pieces = parse(TOOL_FORMATS["hermes"].new_parser(), [text])
    assert content_of(pieces) == '<tool_call>{"name": '
    assert calls_of(pieces) == BOTH[:1]


def test_a_long_argument_takes_time_in_proportion_to_its_length() -> None:
    value = json.dumps({"text": "word " * 100_000})
    text = f'<tool_call>{{"name": "f", "arguments": {value}}}</tool_call>'
    parts = [text[start : start + 4] for start in range(0, len(text), 4)]
    assert calls_of(parse(TOOL_FORMATS["hermes"].new_parser(), parts)) == [("f", value)]
