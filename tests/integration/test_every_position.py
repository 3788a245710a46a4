"""An engine that ends at any output position leaves no trace in the answer, whatever was asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cluster.config import ClusterConfig, EngineConfig, ModelConfig
from engine.execution.runner import ModelRunner
from frontend.app import build_app
from frontend.model_info import ModelInfo, load_model_info
from frontend.tokenizer import Tokenizer, load_tokenizer
from tests.support.frontend_app import client_of_app
from tests.support.mortal_engines import MortalEngines
from tests.support.stream_merging import events_of, merged
from tests.support.tiny_model import make_tiny_model

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
TOKENS = 7
PROMPT = {"prompt": "The four horses of the quadriga run", "max_tokens": TOKENS}
GREEDY = PROMPT | {"temperature": 0, "ignore_eos": True}
SEEDED = PROMPT | {"temperature": 0.3, "seed": 7, "ignore_eos": True}
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
TALK = {"messages": MESSAGES, "max_tokens": TOKENS, "temperature": 1.0, "seed": 5}

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "greedy": (COMPLETIONS, GREEDY),
    "seeded": (COMPLETIONS, SEEDED),
    "top_k, top_p and min_p": (COMPLETIONS, SEEDED | {"top_k": 50, "top_p": 0.9, "min_p": 0.01}),
    "n": (COMPLETIONS, SEEDED | {"n": 3, "max_tokens": 5}),
    "list of prompts": (COMPLETIONS, SEEDED | {"prompt": ["one", "and two of them"], "n": 2, "max_tokens": 4}),
    "chat": (CHAT, TALK),
    "chat with n and logprobs": (CHAT, TALK | {"n": 2, "logprobs": True, "top_logprobs": 3, "max_tokens": 5}),
    "logprobs": (COMPLETIONS, SEEDED | {"logprobs": 4}),
    "logprobs of the chosen alone": (COMPLETIONS, GREEDY | {"logprobs": 0}),
    "echo": (COMPLETIONS, SEEDED | {"echo": True}),
    "echo with logprobs": (COMPLETIONS, SEEDED | {"echo": True, "logprobs": 2, "n": 2, "max_tokens": 5}),
    "prompt_logprobs": (COMPLETIONS, SEEDED | {"prompt_logprobs": 2}),
    "chat with prompt_logprobs": (CHAT, TALK | {"prompt_logprobs": 1}),
    "penalties": (COMPLETIONS, GREEDY | {"presence_penalty": 1.5, "frequency_penalty": 1.0, "logprobs": 1}),
    "repetition_penalty": (COMPLETIONS, GREEDY | {"repetition_penalty": 1.8, "logprobs": 1}),
    "min_tokens": (COMPLETIONS, PROMPT | {"temperature": 0, "min_tokens": 5, "logit_bias": {"2": 100}}),
    "logit_bias": (COMPLETIONS, SEEDED | {"logit_bias": {"77": 8.0, "90": 8.5}, "logprobs": 1}),
    "bad_words": (COMPLETIONS, SEEDED | {"bad_words": ["the", "a horse", "e"]}),
    "allowed_token_ids": (COMPLETIONS, SEEDED | {"allowed_token_ids": [70, 80, 90, 100]}),
    "end of text": (COMPLETIONS, PROMPT | {"temperature": 1.3, "seed": 3, "logit_bias": {"2": 4}}),
}  # fmt: skip


class Served:
    """A tiny model, served by engines of which the first ends when it is told to."""

    def __init__(self, directory: Path, async_scheduling: bool = False) -> None:
        self.config = ClusterConfig(
            model=ModelConfig(model=str(make_tiny_model(directory, tie_word_embeddings=False))),
            engine=EngineConfig(
                device="cpu", block_size=4, threads_per_engine=1, kv_cache_memory="8MiB",
                kv_cache_dtype="float32", async_scheduling=async_scheduling,
            ),
        )  # fmt: skip
        self.runner = ModelRunner(self.config)
        self.model: ModelInfo = load_model_info(self.config)
        self.tokenizer: Tokenizer = load_tokenizer(self.config)

    async def ask(self, path: str, body: dict[str, Any]) -> Any:
        """The answer of an engine that does not end."""
        async with self.client() as (client, _):
            return await ask(client, path, body)

    async def check_every_position(self, path: str, body: dict[str, Any]) -> int:
        """Ask again and again, the engine ending one token later each time; how often it ended."""
        async with self.client() as (client, engines):
            expected = await ask(client, path, body)
            for position in range(1, 1000):
                engines.restart(position)
                answer = await ask(client, path, body)
                assert answer == expected, f"other than undisturbed after a fault at {position}"
                if not engines.num_deaths:
                    return position - 1
        raise AssertionError("the answer has no end")

    @asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[httpx.AsyncClient, MortalEngines]]:
        """A client of the running application, and its engines."""
        engines = MortalEngines(self.runner, self.config.engine)
        app = build_app(self.config, self.model, self.tokenizer, engines)
        async with client_of_app(app) as client:
            yield client, engines
        await engines.close()


async def ask(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> Any:
    """The whole answer, but for its id, its time and the engines that it had."""
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    answer = merged(events_of(response.text)) if body.get("stream") else response.json()
    return {key: value for key, value in answer.items() if key not in ("id", "created", "quadriga")}


@pytest.fixture(scope="module", params=[False, True], ids=["one step", "steps overlap"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(tmp_path_factory.mktemp("tiny"), async_scheduling=request.param)


def streamed(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_is_the_same_wherever_its_engine_ends(served: Served, kind: str) -> None:
    path, body = KINDS[kind]
    assert await served.check_every_position(path, body | {"return_token_ids": True}) >= 2


@pytest.mark.parametrize(
    "kind", [kind for kind, (_, body) in KINDS.items() if "prompt_logprobs" not in body]
)
async def test_a_stream_is_the_same_wherever_its_engine_ends(served: Served, kind: str) -> None:
    path, body = KINDS[kind]
    body = streamed(body) | {"return_token_ids": True}
    assert await served.check_every_position(path, body) >= 2


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("is_included", [False, True])
@pytest.mark.parametrize("length", [2, 6])
async def test_a_stop_string_is_found_across_the_seam(
    served: Served, length: int, is_included: bool, is_streamed: bool
) -> None:
    answer = await served.ask(COMPLETIONS, GREEDY)
    text = answer["choices"][0]["text"]
    stop = text[len(text) // 2 :][:length]
    body = GREEDY | {"stop": [stop], "include_stop_str_in_output": is_included}
    answer = await served.ask(COMPLETIONS, body)
    assert answer["choices"][0]["stop_reason"] == stop
    body = streamed(body) if is_streamed else body
    assert await served.check_every_position(COMPLETIONS, body | {"return_token_ids": True}) >= 1


@pytest.mark.parametrize("min_tokens", [0, 5])
async def test_a_stop_token_ends_an_answer_after_the_seam(served: Served, min_tokens: int) -> None:
    answer = await served.ask(COMPLETIONS, SEEDED | {"return_token_ids": True})
    stop = answer["choices"][0]["token_ids"][4]
    body = SEEDED | {"stop_token_ids": [stop], "min_tokens": min_tokens, "logprobs": 1}
    answer = await served.ask(COMPLETIONS, body)
    assert (answer["choices"][0]["stop_reason"] == stop) or min_tokens
    assert await served.check_every_position(COMPLETIONS, body) >= 2
