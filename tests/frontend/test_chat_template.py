"""Chat templates, in a sandbox, with whatever clients send."""

from typing import Any

import pytest

from cluster.errors import InvalidRequest, ModelError
from frontend.chat_template import ChatTemplate

USER = {"role": "user", "content": "Hi"}
CHATML = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def test_special_tokens_and_variables_are_at_hand() -> None:
    template = ChatTemplate(
        "{{ bos_token }}{{ mood }}{{ messages[0].content }}", {"bos_token": "<s>"}
    )
    assert template.render([USER], variables={"mood": "kind "}) == "<s>kind Hi"


def test_json_is_written_as_transformers_does() -> None:
    template = ChatTemplate("{{ tools | tojson }}")
    assert template.render([USER], tools=[{"name": "é<b>"}]) == '[{"name": "é<b>"}]'


def test_blocks_take_their_line_and_loops_can_be_left() -> None:
    template = ChatTemplate("{% for m in messages %}\n{{ m.role }}\n{% break %}\n{% endfor %}\n")
    assert template.render([USER, USER]) == "user\n"


def test_the_marks_for_training_are_transparent() -> None:
    assert ChatTemplate("a{% generation %}b{{ 1 }}{% endgeneration %}c").render([USER]) == "ab1c"


def test_the_date_is_known() -> None:
    assert len(ChatTemplate("{{ strftime_now('%Y') }}").render([USER])) == 4


def test_developer_is_system_unless_the_template_knows_better() -> None:
    developer = {"role": "developer", "content": "x"}
    assert ChatTemplate(CHATML).render([developer]).startswith("<|system|>")
    knowing = "{# developer #}" + CHATML
    assert ChatTemplate(knowing).render([developer]).startswith("<|developer|>")


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages[0].nothing.at.all }}",
        "{{ 'a' + 1 }}",
        "{{ 1 / 0 }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ range(10000000000) | list }}",
        "{{ messages[5].content }}",
        "{% macro again(n) %}{{ again(n) }}{% endmacro %}{{ again(1) }}",
        "{% include 'x' %}",
    ],
)
def test_whatever_a_template_raises_is_the_clients_error(source: str) -> None:
    with pytest.raises(InvalidRequest, match="chat template") as caught:
        ChatTemplate(source).render([USER])
    assert caught.value.param == "messages"


def test_the_templates_own_words_reach_the_client() -> None:
    with pytest.raises(InvalidRequest, match="roles must alternate"):
        ChatTemplate("{{ raise_exception('roles must alternate') }}").render([USER])


def test_names_of_the_callers_own_cannot_be_overridden() -> None:
    with pytest.raises(InvalidRequest):
        ChatTemplate(CHATML).render([USER], variables={"messages": []})


def test_a_final_message_is_left_open_exactly_after_its_content() -> None:
    template = ChatTemplate(CHATML)
    messages = [USER, {"role": "assistant", "content": "Hi <|end|> Hi  "}]
    options: dict[str, Any] = {"add_generation_prompt": False, "continue_final_message": True}
    assert template.render(messages, **options) == "<|user|>Hi<|end|><|assistant|>Hi <|end|> Hi  "
    empty = [USER, {"role": "assistant", "content": ""}]
    assert template.render(empty, **options) == "<|user|>Hi<|end|><|assistant|>"
    assert messages[-1]["content"] == "Hi <|end|> Hi  "


def test_what_a_template_does_not_show_cannot_be_continued() -> None:
    with pytest.raises(InvalidRequest) as caught:
        ChatTemplate("nothing").render([USER], continue_final_message=True)
    assert caught.value.param == "continue_final_message"


def test_a_template_that_does_not_compile_is_the_models_error() -> None:
    with pytest.raises(ModelError, match="does not compile"):
        ChatTemplate("{% if %}")
