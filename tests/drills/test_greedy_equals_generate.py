"""Greedy answers through the whole cluster, against transformers' `generate` on the same weights."""

import pytest

from cluster.config import load_config
from tests.support.launched_cluster import LaunchedCluster, embedded_model
from tests.support.questions import QUESTIONS, as_chat
from tests.support.reference_model import ReferenceModel
from tests.support.streaming_client import StreamingClient

pytestmark = pytest.mark.drill

NUM_PROMPTS, MAX_TOKENS = 32, 64
NEAR_TIE = 1e-2
"""A float16 KV cache moves logits by about this much."""


async def test_greedy_answers_are_those_of_generate() -> None:
    cluster = LaunchedCluster("--dp=2", "--frontends=2", *embedded_model()).wait_until_ready()
    try:
        bodies = [
            {"prompt": as_chat(q), "max_tokens": MAX_TOKENS, "temperature": 0, "ignore_eos": True}
            for q in QUESTIONS[::2]
        ]
        async with StreamingClient(cluster.url) as client:
            answers = await client.complete_all(bodies, concurrency=16)
        model_directory = load_config(cluster.run_directory / "cluster.json").model_directory
    finally:
        cluster.close()
    reference = ReferenceModel(model_directory)
    num_equal = 0
    for question, answer in zip(QUESTIONS[::2], answers, strict=True):
        prompt = reference.tokenizer(as_chat(question), add_special_tokens=False).input_ids
        right = reference.generate(prompt, MAX_TOKENS)
        difference = reference.difference(prompt, answer.token_ids, right)
        num_equal += difference is None
        if difference is not None:
            print(f"{question!r}: {difference}")
            assert difference.logit_gap < NEAR_TIE
    print(f"{num_equal} of {NUM_PROMPTS} equal")
    assert num_equal >= 30
