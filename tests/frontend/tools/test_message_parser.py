from hypothesis import given, settings

from frontend.reasoning.reasoning_formats import REASONING_FORMATS
from frontend.tools.message_parser import MessageParser
from frontend.tools.pieces import CallArguments, CallBegins, ContentPiece, ReasoningPiece
from frontend.tools.tool_formats import TOOL_FORMATS
from tests.frontend.tools.cutting import cut_text, parse

CALL = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'


@settings(deadline=None)
@given(cut_text(f"<think>Perhaps {CALL}?</think>\n\nYes. {CALL}"))
def test_calls_are_looked_for_behind_the_reasoning_alone(parts: list[str]) -> None:
    parser = MessageParser(
        REASONING_FORMATS["think"].new_parser(""), TOOL_FORMATS["hermes"].new_parser()
    )
    assert parse(parser, parts) == [
        ReasoningPiece(f"Perhaps {CALL}?"),
        ContentPiece("\n\nYes. "),
        CallBegins(0, "f"),
        CallArguments(0, '{"a": 1}'),
    ]


def test_with_no_parser_a_text_stays_as_it_is() -> None:
    text = f"<think>x</think>{CALL}"
    assert parse(MessageParser(None, None), text) == [ContentPiece(text)]


def test_what_reasoning_held_back_at_the_end_is_looked_through_too() -> None:
    parser = MessageParser(
        REASONING_FORMATS["think"].new_parser(""), TOOL_FORMATS["json"].new_parser()
    )
    assert parse(parser, ["<thi"]) == [ContentPiece("<thi")]
