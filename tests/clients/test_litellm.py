"""LiteLLM as a client."""

from pathlib import Path
from typing import Any

import pytest

from tests.clients.foreign import ANSWER, script_answers
from tests.support.launched_cluster import LaunchedCluster

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def answers(embedded_cluster: LaunchedCluster, home: Path) -> Any:
    return script_answers("litellm", embedded_cluster, home)


@pytest.mark.parametrize("prefix", ["openai", "hosted_vllm"])
def test_a_stream_put_together_again_is_the_whole_answer(answers: Any, prefix: str) -> None:
    whole, built = answers[prefix]["answers"]
    assert whole == built
    assert whole["text"] == ANSWER
    assert whole["finish_reason"] == "stop"
    assert whole["completion_tokens"] == 8
    assert answers[prefix]["num_chunks"] >= 8


@pytest.mark.parametrize("prefix", ["openai", "hosted_vllm"])
def test_a_refusal_is_a_bad_request_in_our_words(answers: Any, prefix: str) -> None:
    assert answers[prefix]["refused"].startswith("400 ")
    assert "temperature must be at most 2" in answers[prefix]["refused"]
