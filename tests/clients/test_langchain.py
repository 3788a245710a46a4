"""LangChain's ChatOpenAI."""

from pathlib import Path
from typing import Any

import pytest

from tests.clients.foreign import ANSWER, script_answers
from tests.support.launched_cluster import LaunchedCluster

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def answers(embedded_cluster: LaunchedCluster, home: Path) -> Any:
    return script_answers("langchain", embedded_cluster, home)


def test_a_stream_is_the_whole_answer_with_its_usage(answers: Any) -> None:
    assert answers["whole"] == answers["streamed"] == ANSWER
    assert answers["finish_reason"] == answers["streamed_finish_reason"] == "stop"
    for name in ("input_tokens", "output_tokens", "total_tokens"):
        assert answers["usage"][name] == answers["streamed_usage"][name]
    assert answers["num_chunks"] > answers["usage"]["output_tokens"]


def test_a_bound_tool_is_called_and_its_result_taken(answers: Any) -> None:
    (call,) = answers["calls"]
    assert call["name"] == "weather"
    assert isinstance(call["args"]["city"], str)
    assert answers["after"]


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_a_structured_answer_has_the_shape_asked_for(answers: Any, method: str) -> None:
    city = answers["structured"][method]
    assert isinstance(city["name"], str)
    assert isinstance(city["is_capital"], bool)
