"""The official client for node."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.clients.foreign import ANSWER, SCRIPTS, address_of, run_foreign
from tests.clients.installed import installed_node_folder
from tests.support.launched_cluster import LaunchedCluster

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def answers(embedded_cluster: LaunchedCluster, home: Path) -> Any:
    folder = installed_node_folder()
    script = folder / "chat.mjs"  # modules are looked for beside the script
    shutil.copy(SCRIPTS / "chat.mjs", script)
    return json.loads(run_foreign(["node", script, *address_of(embedded_cluster)], home))


def test_a_stream_is_the_whole_answer_with_its_usage(answers: Any) -> None:
    assert answers["whole"] == ANSWER
    assert answers["streamed"]["text"] == ANSWER
    assert answers["streamed"]["finishReasons"] == ["stop"]
    assert answers["streamed"]["usage"]["completion_tokens"] == 8


def test_the_stream_helper_puts_every_choice_together(answers: Any) -> None:
    assert answers["helped"]["finals"] == [ANSWER, ANSWER]
    assert len(answers["helped"]["deltas"]) == 2 * len(ANSWER)


def test_the_stream_helper_puts_a_call_of_a_tool_together(answers: Any) -> None:
    (call,) = answers["called"]
    assert call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"])["unit"] in {"celsius", "kelvin"}


def test_errors_have_the_class_the_code_and_the_field(answers: Any) -> None:
    assert answers["unknownModel"] == {
        "name": "NotFoundError", "status": 404, "code": "model_not_found", "param": "model",
    }  # fmt: skip
    assert answers["badField"]["name"] == answers["tooLong"]["name"] == "BadRequestError"
    assert answers["badField"]["param"] == "temperature"
    assert answers["tooLong"]["code"] == "context_length_exceeded"


def test_the_model_is_listed(answers: Any, embedded_cluster: LaunchedCluster) -> None:
    assert answers["models"] == [address_of(embedded_cluster)[1]]
