"""Grafana dashboards read metrics that exist, and are laid out without gaps in their care."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.promql import readings, unknown_parts
from tests.architecture.repository import ROOT

DASHBOARDS = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))
GRID_COLUMNS = 24


def load(path: Path) -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads(path.read_text())
    return dashboard


def plots(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions(dashboard: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for panel in plots(dashboard):
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_there_is_a_dashboard() -> None:
    assert DASHBOARDS


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_metric_and_label_in_a_panel_exists(path: Path) -> None:
    problems = [
        f"{title}: {problem}"
        for title, expression in expressions(load(path))
        for problem in unknown_parts(expression)
    ]
    assert not problems


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_follows_the_menus_of_data_source_and_cluster(path: Path) -> None:
    dashboard = load(path)
    assert {variable["name"] for variable in dashboard["templating"]["list"]} >= {
        "datasource",
        "job",
    }
    for panel in plots(dashboard):
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
    for title, expression in expressions(dashboard):
        assert all("job" in reading.labels for reading in readings(expression)), title


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_has_a_title_a_description_and_a_unit(path: Path) -> None:
    for panel in plots(load(path)):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        if panel["type"] != "state-timeline":
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_have_ids_of_their_own_and_do_not_overlap(path: Path) -> None:
    panels = load(path)["panels"]
    ids = [panel["id"] for panel in panels]
    assert len(set(ids)) == len(ids)
    taken: dict[tuple[int, int], str] = {}
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= GRID_COLUMNS, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]
