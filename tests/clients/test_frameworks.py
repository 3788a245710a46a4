"""Frameworks on top of the official client, one smoke test each."""

from pathlib import Path

import pytest

from tests.clients.foreign import ANSWER, script_answers
from tests.support.launched_cluster import LaunchedCluster

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

PARIS = {"name": "Paris", "is_capital": True}


def test_instructor_gets_objects_by_tools_and_by_schema(
    embedded_cluster: LaunchedCluster, home: Path
) -> None:
    answers = script_answers("instructor", embedded_cluster, home)
    assert answers == {"TOOLS": PARIS, "JSON_SCHEMA": PARIS}


def test_pydantic_ai_gets_an_object_and_a_stream(
    embedded_cluster: LaunchedCluster, home: Path
) -> None:
    answers = script_answers("pydantic_ai", embedded_cluster, home)
    assert answers == {"city": PARIS, "text": ANSWER, "output_tokens": 8}


def test_openai_agents_call_a_tool(embedded_cluster: LaunchedCluster, home: Path) -> None:
    answers = script_answers("openai_agents", embedded_cluster, home)
    assert answers == {"output": "fine", "calls": 1}
