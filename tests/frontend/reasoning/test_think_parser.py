from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontend.reasoning.reasoning_formats import REASONING_FORMATS, pick_reasoning_format
from frontend.tools.pieces import ContentPiece, ReasoningPiece
from tests.frontend.tools.cutting import content_of, cut, cut_text, parse

OPENED = "<|assistant|>\n<think>\n"
CLOSED = "<|assistant|>\n<think>\n\n</think>\n\n"

CASES = [
    ("qwen3", "", "<think>\nHm.\n</think>\n\nYes.", "\nHm.\n", "\n\nYes."),
    ("qwen3", "", "\n<think>Hm.", "Hm.", ""),
    ("qwen3", "", "Yes, I <think> so.</think>", "", "Yes, I <think> so.</think>"),
    ("qwen3", "", " \n<thin", "", " \n<thin"),
    ("qwen3", OPENED, "Hm.</think>Yes.", "Hm.", "Yes."),
    ("qwen3", OPENED, "<think>Hm.</think>Yes.", "Hm.", "Yes."),
    ("qwen3", OPENED, " <thi", " <thi", ""),
    ("qwen3", CLOSED, "Yes.", "", "Yes."),
    ("think", "", "<think></think>Yes.", "", "Yes."),
    ("think", "", "<think>a </thin b</think></think>c", "a </thin b", "</think>c"),
    ("deepseek_r1", "", "Hm.</think>Yes.", "Hm.", "Yes."),
    ("deepseek_r1", "", "Hm.", "Hm.", ""),
    ("deepseek_r1", CLOSED, "Yes.", "", "Yes."),
    ("granite", "", "Here is my thought process: Hm. Here is my response: Yes.", " Hm. ", " Yes."),
    ("mistral", "", "[THINK]Hm.[/THINK]Yes.", "Hm.", "Yes."),
]


@pytest.mark.parametrize(("name", "prompt", "text", "reasoning", "content"), CASES)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_reasoning_is_told_from_content_wherever_the_text_is_cut(
    name: str, prompt: str, text: str, reasoning: str, content: str, data: Any
) -> None:
    pieces = parse(REASONING_FORMATS[name].new_parser(prompt), data.draw(cut_text(text)))
    assert content_of(pieces) == content
    assert "".join(p.text for p in pieces if isinstance(p, ReasoningPiece)) == reasoning


BEGUN = [
    ("The answer", " is 4.", "", " is 4."),
    ("The answer", "FIRSTa LASTb", "", "FIRSTa LASTb"),
    ("FIRSTHm.LASTThe answer", " is 4.", "", " is 4."),
    ("FIRST Hm", ", so.LAST4.", ", so.", "4."),
    ("FIRST Hm", ", so", ", so", ""),
]
"""What a client has the answer begin with, how the model goes on, and what of that is reasoning."""


@pytest.mark.parametrize("name", REASONING_FORMATS)
@pytest.mark.parametrize(("begun", "text", "reasoning", "content"), BEGUN)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_what_is_continued_goes_on_as_what_it_is(
    name: str, begun: str, text: str, reasoning: str, content: str, data: Any
) -> None:
    format_ = REASONING_FORMATS[name]

    def marked(words: str) -> str:
        return words.replace("FIRST", format_.first_mark).replace("LAST", format_.last_mark)

    prompt = "<|assistant|>\n" + marked(begun)
    pieces = parse(format_.new_parser(prompt, marked(begun)), data.draw(cut_text(marked(text))))
    assert content_of(pieces) == marked(content)
    assert "".join(p.text for p in pieces if isinstance(p, ReasoningPiece)) == reasoning


@pytest.mark.parametrize("begun", ["", " \n"])
def test_a_beginning_of_nothing_says_nothing(begun: str) -> None:
    pieces = parse(REASONING_FORMATS["deepseek_r1"].new_parser(begun, begun), ["Hm.</think>Yes."])
    assert pieces == [ReasoningPiece("Hm."), ContentPiece("Yes.")]


TEXTS = st.lists(st.sampled_from(["<think>", "</think>", "</th", "<", " ", "\n", "a", "b"]))


@pytest.mark.parametrize("prompt", ["", OPENED, CLOSED])
@settings(deadline=None)
@given(parts=cut(TEXTS.map("".join)))
def test_how_a_text_is_cut_changes_nothing(prompt: str, parts: list[str]) -> None:
    format_ = REASONING_FORMATS["think"]
    whole = parse(format_.new_parser(prompt), ["".join(parts)])
    assert parse(format_.new_parser(prompt), parts) == whole


@settings(deadline=None)
@given(reasoning=st.text("ab </", max_size=9), content=st.text(), data=st.data())
def test_both_come_out_to_the_last_character(reasoning: str, content: str, data: Any) -> None:
    text = f"<think>{reasoning}</think>{content}"
    pieces = parse(REASONING_FORMATS["think"].new_parser(""), data.draw(cut_text(text)))
    assert content_of(pieces) == content
    assert "".join(p.text for p in pieces if isinstance(p, ReasoningPiece)) == reasoning


def test_reasoning_is_told_as_it_comes() -> None:
    parser = REASONING_FORMATS["think"].new_parser("")
    assert parser.feed("<think>One") == [ReasoningPiece("One")]
    assert parser.feed(" two</th") == [ReasoningPiece(" two")]
    assert not parser.is_over
    assert parser.feed("ink>Three") == [ContentPiece("Three")]
    assert parser.is_over


def test_none_is_no_format() -> None:
    assert pick_reasoning_format("none") is None
    assert pick_reasoning_format("qwen3") is REASONING_FORMATS["think"]
