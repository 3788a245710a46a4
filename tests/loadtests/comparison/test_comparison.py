import json
from pathlib import Path

import pytest

from loadtests.cli import main


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_two_policies_are_compared_on_real_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written, page = tmp_path / "comparison.json", tmp_path / "comparison.md"
    flags = ["--loads", "uniform", "--policies", "round-robin,least-inflight", "--rounds", "1"]
    flags += ["--engines", "2", "--frontends", "1", "--requests", "12"]
    flags += ["--json", str(written), "--markdown", str(page)]
    assert main(["compare-policies", *flags]) == 0
    assert "round-robin" in capsys.readouterr().out
    assert "| least-inflight |" in page.read_text()
    trials = json.loads(written.read_bytes())["trials"]
    assert [trial["policy"] for trial in trials] == ["round-robin", "least-inflight"]
    for trial in trials:
        assert trial["report"]["completed"] == 12
        assert trial["report"]["prompt_tokens"] == 12 * 256
        assert sum(trial["engine_requests"]) == 12
        assert trial["processor_share"] > 0
    assert trials[0]["engine_requests"] == [6, 6]
