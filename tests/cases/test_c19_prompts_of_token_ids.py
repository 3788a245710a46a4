"""C19: a prompt of token ids is taken as it is, token 0 and all; what is no prompt is refused.

sglang#40287, litellm#18011, llm-d-inference-sim#504.
"""

from typing import Any

import httpx
import pytest

from tests.support.scripted_engine import ScriptedEngine
from tests.support.ways import COMPLETIONS_PATH, Way, check_refused

NO_PROMPTS: list[Any] = [
    [], [[]], [[5], []], [1, "a"], [[1, "a"]], [1, [2]], [[[1]]], [1.5], [True], [None], [[5], None],
    {}, 5, None, ...,
]  # fmt: skip
ENDPOINT = [Way(COMPLETIONS_PATH, streamed) for streamed in (False, True)]
each_way = pytest.mark.parametrize("way", ENDPOINT, ids=["whole", "streamed"])


@each_way
@pytest.mark.parametrize(
    "prompts", [[[0]], [[5, 6, 7]], [[5, 6], [7]], [[0], [0]], [[5] * 100, [6]]]
)
async def test_each_list_of_ids_is_a_prompt_to_which_nothing_is_added(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient, prompts: list[list[int]]
) -> None:
    reply = await way.ask(client, prompts[0] if len(prompts) == 1 else prompts, max_tokens=3)
    assert [request.prompt_token_ids for request in engine.submitted] == prompts
    assert len(reply.choices) == len(prompts)
    assert reply.usage is not None
    assert reply.usage["prompt_tokens"] == sum(map(len, prompts))
    await way.ask(client, prompts, max_tokens=3)  # one in a list of its own is the same
    assert [r.prompt_token_ids for r in engine.submitted[len(prompts) :]] == prompts


@each_way
async def test_texts_and_ids_may_be_mixed(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    reply = await way.ask(client, ["Hi", [0], [5, 6]], n=2)
    assert len(reply.choices) == 6
    assert [r.prompt_token_ids for r in engine.submitted[2:]] == [[0], [0], [5, 6], [5, 6]]


@each_way
async def test_ids_can_be_echoed(way: Way, client: httpx.AsyncClient) -> None:
    reply = await way.ask(client, [5, 6, 7], echo=True, logprobs=0, max_tokens=2)
    text = (await client.post("/detokenize", json={"tokens": [5, 6, 7]})).json()["prompt"]
    assert reply.text.startswith(text)
    assert len(reply.choices[0]["logprobs"]["tokens"]) == 5


@each_way
async def test_what_is_no_prompt_is_refused(
    way: Way, engine: ScriptedEngine, client: httpx.AsyncClient
) -> None:
    for prompt in NO_PROMPTS:
        answer = await way.send(client, prompt)
        param = answer.json().get("error", {}).get("param")
        assert str(param).startswith("prompt"), (prompt, answer.text)
        check_refused(answer, param)
    assert not engine.submitted
