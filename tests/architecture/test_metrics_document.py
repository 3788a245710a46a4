"""docs/metrics.md lists the metrics that there are, as they are exposed."""

import re

from cluster.telemetry.metrics import PREFIX
from cluster.telemetry.names import METRICS, MetricSpec
from tests.architecture.repository import ROOT

ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<kind>\w+) \| (?P<labels>[^|]*) \|", re.MULTILINE)


def exposed_name(spec: MetricSpec) -> str:
    return f"{PREFIX}_{spec.name}" + ("_total" if spec.kind == "counter" else "")


def test_every_metric_is_listed_with_its_kind_and_labels_and_no_other_is() -> None:
    listed = {
        row["name"]: (row["kind"], tuple(re.findall(r"`(\w+)`", row["labels"])))
        for row in ROW.finditer((ROOT / "docs/metrics.md").read_text())
    }
    assert listed == {exposed_name(spec): (spec.kind, spec.labels) for spec in METRICS}


def test_no_metric_is_listed_twice() -> None:
    names = [row["name"] for row in ROW.finditer((ROOT / "docs/metrics.md").read_text())]
    assert len(set(names)) == len(names)
