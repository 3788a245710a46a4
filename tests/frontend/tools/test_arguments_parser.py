import pytest
from hypothesis import given, settings

from frontend.tools.arguments_parser import ArgumentsParser
from frontend.tools.pieces import CallArguments, CallBegins, ContentPiece, Piece
from tests.frontend.tools.cutting import cut_text, parse

ARGUMENTS = '{"a": [1, {"b": "}"}]}'
CALL: list[Piece] = [CallBegins(0, "f"), CallArguments(0, ARGUMENTS)]


@settings(deadline=None)
@given(cut_text(f" \n{ARGUMENTS}\n"))
def test_the_object_is_the_arguments_of_the_named_function(parts: list[str]) -> None:
    assert parse(ArgumentsParser("f"), parts) == CALL


@settings(deadline=None)
@given(cut_text(f"{ARGUMENTS} and more"))
def test_what_follows_the_object_is_content(parts: list[str]) -> None:
    assert parse(ArgumentsParser("f"), parts) == [*CALL, ContentPiece(" and more")]


@pytest.mark.parametrize("text", [" sorry {}", "[1]", "  "])
def test_anything_else_is_content(text: str) -> None:
    assert parse(ArgumentsParser("f"), text) == [ContentPiece(text)]
