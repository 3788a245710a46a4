"""Programs of other people, run against a cluster as their users would run them."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.architecture.repository import ROOT
from tests.clients.installed import installed_python
from tests.support.launched_cluster import LaunchedCluster

SCRIPTS = ROOT / "tests/clients/scripts"
RUN_SECONDS = 150
QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # its price map is fetched at import
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "NO_PROXY": "127.0.0.1",
}
ANSWER = "The capital of France is Paris."
"""What the embedded model says, greedily, when it is asked for the capital of France."""


def run_foreign(command: Sequence[str | Path], home: Path, **environment: str) -> str:
    """What a program prints. Raises AssertionError with its complaint if it fails."""
    ran = subprocess.run(
        [str(word) for word in command],
        env={"PATH": os.environ["PATH"], "HOME": str(home), **QUIET, **environment},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def script_answers(client: str, cluster: LaunchedCluster, home: Path) -> Any:
    """The answers that a client's script got from the cluster: the JSON in its last line."""
    script = SCRIPTS / f"{client}_answers.py"
    printed = run_foreign([installed_python(client), script, *address_of(cluster)], home)
    return json.loads(printed.splitlines()[-1])


def address_of(cluster: LaunchedCluster) -> tuple[str, str]:
    """The base URL that clients are given, and the model's name."""
    return f"{cluster.url}/v1", cluster.get("/v1/models").json()["data"][0]["id"]
