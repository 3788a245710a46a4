from typing import Any

import pytest
import tokenizers

from cluster.config import FrontendConfig
from cluster.errors import InvalidRequest
from frontend.openai.schemas import ChatBody, FunctionDefinition
from frontend.tokenizer import Tokenizer
from frontend.tools.message_format import PLAIN, MessageFormat, MessageFormats
from frontend.tools.tool_use import NO_TOOLS, ToolUse
from tests.support.tiny_tokenizer import byte_level_backend

WITH_TOOLS = "{{ tools }}<tool_call>"
FUNCTIONS = (FunctionDefinition(name="f"),)
AUTO = ToolUse(FUNCTIONS, "auto")
FORCED = ToolUse(FUNCTIONS, "named", "f")


def format_of(
    use: ToolUse, *, template: str = WITH_TOOLS, special: str = "", **settings: Any
) -> MessageFormat:
    backend = tokenizers.Tokenizer.from_str(byte_level_backend().to_str())
    if special:
        backend.add_special_tokens([special])
    formats = MessageFormats(
        FrontendConfig(**settings), Tokenizer(backend, chat_template_source=template)
    )
    return formats.of(ChatBody(messages=[]), use, "", is_constrained=use.is_forced)


def test_a_request_without_tools_has_a_plain_answer() -> None:
    assert PLAIN.is_plain
    assert format_of(NO_TOOLS).is_plain
    assert format_of(ToolUse(FUNCTIONS, "none")).is_plain
    assert not format_of(AUTO).is_plain


def test_special_tokens_are_spelled_out_only_for_a_parser_that_looks_for_them() -> None:
    assert format_of(AUTO, special="<tool_call>").shows_special_tokens
    assert not format_of(AUTO).shows_special_tokens
    assert not format_of(NO_TOOLS, special="<tool_call>").shows_special_tokens
    assert not format_of(FORCED, special="<tool_call>").shows_special_tokens
    thinks = format_of(NO_TOOLS, special="[THINK]", reasoning_parser="mistral")
    assert thinks.shows_special_tokens


def test_an_answer_that_a_grammar_rules_has_no_reasoning() -> None:
    assert format_of(AUTO, reasoning_parser="think").new_reasoning_parser is not None
    assert format_of(FORCED, reasoning_parser="think").new_reasoning_parser is None


@pytest.mark.parametrize(
    ("use", "label"),
    [
        (AUTO, "tool_calls"),
        (ToolUse(FUNCTIONS, "required"), "tool_calls"),
        (FORCED, "stop"),
        (ToolUse(FUNCTIONS, "auto", is_legacy=True), "function_call"),
    ],
)
def test_an_answer_with_calls_ends_in_openais_words(use: ToolUse, label: str) -> None:
    assert format_of(use).finish_label == label


def test_tools_need_a_template_that_has_a_place_for_them_or_a_forced_call() -> None:
    with pytest.raises(InvalidRequest) as caught:
        format_of(AUTO, template="{{ messages }}")
    assert caught.value.param == "tools"
    assert format_of(FORCED, template="{{ messages }}").new_tool_parser is not None


def test_the_name_of_a_variable_alone_does_not_make_a_place_for_tools() -> None:
    with pytest.raises(InvalidRequest):
        format_of(AUTO, template="{% set tools = [] %}{{ tools }}")
