"""Why a request went where it went, asked of a real cluster."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from cluster.operate.decision_table import Decisions
from loadtests.fit import fit_description
from tests.e2e.conftest import Launch
from tests.support.launched_cluster import LaunchedCluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def decisions_command(cluster: LaunchedCluster, *flags: str) -> str:
    return subprocess.run(
        [sys.executable, "-P", "-m", "cluster", "decisions", *flags],
        env={"XDG_RUNTIME_DIR": str(cluster.directory)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def test_a_cluster_tells_why_a_request_went_to_an_engine_and_what_it_has_measured(
    launch: Launch, tiny_model: Path
) -> None:
    cluster = launch(
        f"--model={tiny_model}", "--engine=simulated", "--dp=2", "--frontends=1",
        "--kv-cache-memory=64MiB", "--admin-key=boss",
    )  # fmt: skip
    for _ in range(3):
        prompt = list(range(3, 203))
        answer = cluster.post("/v1/completions", prompt=prompt, max_tokens=20, ignore_eos=True)
        assert answer.status_code == 200
    told = msgspec.json.decode(decisions_command(cluster, "--json"), type=Decisions)
    assert [decision.context_tokens for decision in told.decisions] == [200] * 3
    assert {len(decision.engines) for decision in told.decisions} == {2}
    assert all(engine.terms is not None for engine in told.decisions[0].engines)
    assert decisions_command(cluster, "-n", "1").count("cmpl-") == 1
    found = fit_description(cluster.get("/cluster").content)
    assert 1 <= found.num_engines <= 2
    assert 0.005 < found.cost_model.decode_seconds_per_step < 0.02
