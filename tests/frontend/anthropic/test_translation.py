"""Bodies to chat bodies, and errors back."""

import msgspec
import pytest

from cluster.errors import ContextLengthExceeded, InvalidRequest, ModelNotFound
from frontend.anthropic.schemas import MessageBody, PromptBody, Turn
from frontend.anthropic.translation import chat_body, in_anthropics_words, prompt_body
from frontend.openai.schemas import ChatBody, NamedFunction, NamedToolChoice

BODY = MessageBody(model="m", max_tokens=5, messages=[Turn(role="user", content="Hi")])
OWN = {"max_tokens", "stop_sequences"} | set(PromptBody.__struct_fields__)


def test_every_other_field_is_the_chat_field_of_the_same_name() -> None:
    for name in set(MessageBody.__struct_fields__) - OWN:
        value = object()
        body = msgspec.structs.replace(BODY, **{name: value})
        assert getattr(chat_body(body), name) is value


def test_limits_and_stops_are_taken_over() -> None:
    body = msgspec.structs.replace(BODY, stop_sequences=["x"])
    assert (chat_body(body).max_tokens, chat_body(body).stop) == (5, ["x"])


def test_a_conversation_is_continued_only_where_the_assistant_is_last() -> None:
    assert not prompt_body(BODY).continue_final_message
    turns = [*BODY.messages, Turn(role="assistant", content="Well")]
    assert prompt_body(msgspec.structs.replace(BODY, messages=turns)).continue_final_message


@pytest.mark.parametrize(
    ("choice", "chat_choice", "takes_several"),
    [
        ('{"type":"auto"}', "auto", True),
        ('{"type":"any","disable_parallel_tool_use":true}', "required", False),
        (
            '{"type":"tool","name":"f","disable_parallel_tool_use":false}',
            NamedToolChoice(function=NamedFunction(name="f")),
            True,
        ),
        ('{"type":"none"}', "none", True),
        ("null", None, True),
    ],
)
def test_choices_of_tools(
    choice: str, chat_choice: str | NamedToolChoice | None, takes_several: bool
) -> None:
    fields = f'{{"model":"m","messages":[{{"role":"user","content":"x"}}],"tool_choice":{choice}}}'
    chat: ChatBody = prompt_body(msgspec.json.decode(fields, type=PromptBody))
    assert chat.tool_choice == chat_choice
    assert chat.parallel_tool_calls is takes_several


@pytest.mark.parametrize(
    ("param", "words", "renamed", "renamed_words"),
    [
        ("stop", "stop is too long", "stop_sequences", "stop_sequences is too long"),
        (
            "tools[3].function.parameters",
            "tools[3].function.parameters must be",
            "tools[3].input_schema",
            "tools[3].input_schema must be",
        ),
        (
            "response_format",
            "response_format no",
            "output_config.format",
            "output_config.format no",
        ),
        ("top_p", "top_p is no stop", "top_p", "top_p is no stop"),
        (None, "the body: no", None, "the body: no"),
    ],
)
def test_errors_name_the_field_that_the_client_sent(
    param: str | None, words: str, renamed: str | None, renamed_words: str
) -> None:
    error = in_anthropics_words(InvalidRequest(words, param))
    assert (error.param, error.message) == (renamed, renamed_words)


def test_errors_keep_their_kind() -> None:
    assert isinstance(in_anthropics_words(ModelNotFound("no", "model")), ModelNotFound)
    told = in_anthropics_words(ContextLengthExceeded("no", "messages"))
    assert isinstance(told, ContextLengthExceeded)
    assert str(told) == "prompt is too long: no"
