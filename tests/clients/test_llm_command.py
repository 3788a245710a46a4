"""The `llm` command line."""

from pathlib import Path

import pytest

from tests.clients.foreign import ANSWER, address_of, run_foreign
from tests.clients.installed import installed_python
from tests.support.launched_cluster import LaunchedCluster

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

QUESTION = "What is the capital of France?"


@pytest.fixture(scope="module")
def llm(embedded_cluster: LaunchedCluster, home: Path) -> Path:
    """The command, which knows the cluster as `q`."""
    command = installed_python("llm").parent / "llm"
    base_url, model = address_of(embedded_cluster)
    (home / "extra-openai-models.yaml").write_text(
        f"- model_id: q\n  model_name: {model}\n  api_base: {base_url}\n"
        "  api_key_name: k\n  supports_schema: true\n"
    )
    run_foreign([command, "keys", "set", "k", "--value", "x"], home, LLM_USER_PATH=str(home))
    return command


@pytest.mark.parametrize("how", [[], ["--no-stream"]])
def test_it_prints_the_answer_streamed_and_not(llm: Path, home: Path, how: list[str]) -> None:
    options = ["-o", "temperature", "0", "-o", "max_tokens", "12"]
    printed = run_foreign([llm, "-m", "q", *how, *options, QUESTION], home, LLM_USER_PATH=str(home))
    assert printed.strip() == ANSWER


def test_it_goes_on_with_a_conversation(llm: Path, home: Path) -> None:
    options = ["-o", "temperature", "0", "-o", "max_tokens", "12"]
    printed = [
        run_foreign([llm, *words, *options], home, LLM_USER_PATH=str(home))
        for words in (["-m", "q", QUESTION], ["-c", "And of Italy?"])
    ]
    assert printed[0].strip() == ANSWER
    assert printed[1].strip()
