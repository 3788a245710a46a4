"""Errors of chat bodies in the words of the Responses API."""

import pytest

from cluster.errors import ContextLengthExceeded, InvalidRequest, ModelNotFound
from frontend.responses_api.renaming import renamed


@pytest.mark.parametrize(
    ("chat", "here"),
    [
        ("messages", "input"),
        ("max_completion_tokens", "max_output_tokens"),
        ("max_tokens", "max_output_tokens"),
        ("response_format.json_schema.schema", "text.format.schema"),
        ("response_format", "text.format"),
        ("tools[3].function.parameters", "tools[3].parameters"),
        ("tool_choice.allowed_tools.tools", "tool_choice.tools"),
        ("temperature", "temperature"),
    ],
)
def test_fields_are_named_as_the_client_sent_them(chat: str, here: str) -> None:
    error = renamed(InvalidRequest(f"{chat} is wrong", chat))
    assert (error.message, error.param) == (f"{here} is wrong", here)


def test_an_error_stays_what_it_is() -> None:
    error = renamed(ContextLengthExceeded("Please shorten the messages.", "messages"))
    assert isinstance(error, ContextLengthExceeded)
    assert error.message == "Please shorten the input."
    assert isinstance(renamed(ModelNotFound("no", "model")), ModelNotFound)
    assert renamed(InvalidRequest("no")).param is None
