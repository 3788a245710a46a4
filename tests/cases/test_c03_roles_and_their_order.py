"""C03: what the chat template does not take is the client's mistake, told in the template's words.

vllm#17119, vllm#13976, vllm#54022, 1Cat-vLLM#493, sglang#20700.
"""

from typing import Any

import httpx
import pytest

from tests.support.frontend_app import ANSWER, engine_that_says, http_client
from tests.support.scripted_engine import ScriptedEngine
from tests.support.ways import CHAT_PATH, check_refused

STRICT = """\
{%- for message in messages -%}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('Conversation roles must alternate user/assistant') }}
{%- endif -%}
{{ message.role }}: {{ message.content }}
{% endfor -%}"""
USER = {"role": "user", "content": "Hi"}
ASSISTANT = {"role": "assistant", "content": "Hello"}
SYSTEM = {"role": "system", "content": "Be kind"}


async def ask(client: httpx.AsyncClient, streamed: bool, *messages: Any) -> httpx.Response:
    return await client.post(CHAT_PATH, json={"messages": messages, "stream": streamed})


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_unknown_role_is_told_in_the_templates_words(
    engine: ScriptedEngine, client: httpx.AsyncClient, streamed: bool
) -> None:
    answer = await ask(client, streamed, {"role": "wizard", "content": "x"})
    assert "No wizards here" in check_refused(answer, "messages")
    assert not engine.submitted


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "developer", "content": "Be kind"}, USER],
        [SYSTEM, SYSTEM, USER],
        [USER, SYSTEM, USER],
        [ASSISTANT, USER],
        [USER, USER],
        [{**ASSISTANT, "tool_calls": []}, USER],
        [{**USER, "name": "ann"}],
        [{"role": "", "content": "x"}],
        [{"role": "user"}],
    ],
)
async def test_what_the_template_copes_with_is_served(
    client: httpx.AsyncClient, messages: list[Any], streamed: bool
) -> None:
    answer = await ask(client, streamed, *messages)
    assert answer.status_code == 200, answer.text


async def test_a_developer_is_a_system_where_the_template_knows_none(
    engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    await ask(client, False, {"role": "developer", "content": "Be kind"}, USER)
    await ask(client, False, SYSTEM, USER)
    first, second = engine.submitted
    assert first.prompt_token_ids == second.prompt_token_ids


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("messages", [[ASSISTANT, USER], [SYSTEM, USER], [USER, USER]])
async def test_an_order_that_the_template_refuses_is_400(
    messages: list[Any], streamed: bool
) -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine, template=STRICT) as client:
        answer = await ask(client, streamed, *messages)
        assert "Conversation roles must alternate" in check_refused(answer, "messages")
        assert not engine.submitted
        assert (await ask(client, streamed, USER, ASSISTANT, USER)).status_code == 200


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[0].content + 5 }}",
        "{{ messages[0]['tool_calls'][0].id }}",
        "{{ messages[7].content }}",
        "{{ nothing.of.the.kind }}",
        "{{ messages[0].content | round }}",
        "{{ 1 // (messages | length - 1) }}",
        "{% for x in messages[0].role.nothing %}{{ x }}{% endfor %}{{ ''.join(5) }}",
    ],
)
async def test_whatever_a_template_raises_is_no_error_of_ours(
    template: str, streamed: bool
) -> None:
    engine = engine_that_says(ANSWER)
    async with http_client(engine, template=template) as client:
        check_refused(await ask(client, streamed, USER), "messages")
        assert not engine.submitted


@pytest.mark.parametrize("role", [None, 5, [], ...])
async def test_a_role_that_is_no_text_is_named(client: httpx.AsyncClient, role: Any) -> None:
    message = {"content": "x"} | ({} if role is ... else {"role": role})
    for streamed in (False, True):
        check_refused(await ask(client, streamed, message), "messages[0].role")
