"""The Prometheus files are right, by promtool where it is installed and by their content anyway."""

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # PyYAML carries no types

from tests.architecture.promql import unknown_parts
from tests.architecture.repository import ROOT

FOLDER = ROOT / "deploy/prometheus"
PROMTOOL = shutil.which("promtool")
DURATION = re.compile(r"\d+(ms|[smhdwy])")
RULE_FIELDS = {"alert", "expr", "for", "labels", "annotations"}


def load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text())
    return content


def rules() -> list[dict[str, Any]]:
    return [rule for group in load("alerts.yml")["groups"] for rule in group["rules"]]


def test_every_metric_and_label_in_an_alert_exists() -> None:
    problems = [
        f"{rule['alert']}: {problem}" for rule in rules() for problem in unknown_parts(rule["expr"])
    ]
    assert not problems


def test_every_alert_is_well_formed_and_says_what_is_wrong() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert set(rule) <= RULE_FIELDS, rule["alert"]
        assert DURATION.fullmatch(rule.get("for", "0s")), rule["alert"]
        assert rule["labels"]["severity"] in {"page", "ticket"}, rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]


def test_every_alert_is_tested_for_firing() -> None:
    fired = {
        case["alertname"]
        for test in load("alerts_test.yml")["tests"]
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert fired == {rule["alert"] for rule in rules()}


def test_one_address_is_scraped_since_any_frontend_answers_for_all() -> None:
    config = load("prometheus.yml")
    assert config["rule_files"] == ["alerts.yml"]
    (job,) = [job for job in config["scrape_configs"] if job["job_name"] == "quadriga"]
    (static,) = job["static_configs"]
    assert len(static["targets"]) == 1


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed; content checks ran")
@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts_test.yml"],
    ],
    ids=" ".join,
)
def test_promtool_accepts(arguments: list[str]) -> None:
    child = subprocess.run(
        [str(PROMTOOL), *arguments], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stdout + child.stderr
