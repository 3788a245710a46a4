"""Answers that are held to a grammar, from the HTTP body to the model and back, and through faults."""

from typing import Any

import pytest

from tests.integration.test_every_position import CHAT, COMPLETIONS, MESSAGES, Served, streamed

LABEL = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["n"],
    "additionalProperties": False,
}  # fmt: skip
ASKED = {"prompt": "The four horses", "max_tokens": 40, "temperature": 1.0, "seed": 11}
TALKED = {"messages": MESSAGES, "max_tokens": 40, "temperature": 1.0, "seed": 4}
AS_JSON = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "l", "schema": LABEL}}
}

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "json schema": (CHAT, TALKED | AS_JSON),
    "json schema with n and logprobs": (CHAT, TALKED | AS_JSON | {"n": 2, "logprobs": True, "top_logprobs": 2}),
    "greedy json schema": (COMPLETIONS, ASKED | AS_JSON | {"temperature": 0}),
    "json object that is cut": (COMPLETIONS, ASKED | {"response_format": {"type": "json_object"}, "max_tokens": 8}),
    "regex and a bias": (COMPLETIONS, ASKED | {"guided_regex": "[0-9]{6}", "logit_bias": {"20": 3}}),
    "choice": (COMPLETIONS, ASKED | {"structured_outputs": {"choice": ["the first", "the second"]}}),
    "grammar": (COMPLETIONS, ASKED | {"guided_grammar": 'root ::= [a-c] ("," root)?', "max_tokens": 9}),
    "min_tokens and ignore_eos": (
        COMPLETIONS, ASKED | {"guided_regex": "[ab]{5}", "min_tokens": 20, "ignore_eos": True},
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=[False, True], ids=["one step", "steps overlap"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(tmp_path_factory.mktemp("tiny"), async_scheduling=request.param)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_is_the_same_wherever_its_engine_ends(
    served: Served, kind: str, is_streamed: bool
) -> None:
    path, body = KINDS[kind]
    body = (streamed(body) if is_streamed else body) | {"return_token_ids": True}
    assert await served.check_every_position(path, body) >= 2


async def test_min_tokens_and_ignore_eos_do_not_hold_up_a_complete_answer(served: Served) -> None:
    [choice] = (await served.ask(*KINDS["min_tokens and ignore_eos"]))["choices"]
    assert (len(choice["text"]), choice["finish_reason"]) == (5, "stop")


async def test_what_max_tokens_cut_says_so(served: Served) -> None:
    path, body = KINDS["json schema"]
    [choice] = (await served.ask(path, body | {"max_tokens": 2}))["choices"]
    assert choice["finish_reason"] == "length"
