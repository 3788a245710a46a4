"""Which metrics a PromQL expression reads, and with which labels."""

import re
from typing import NamedTuple

import promql_parser
from promql_parser import AggregateExpr, Expr, VectorSelector

from cluster.telemetry.metrics import PREFIX
from cluster.telemetry.names import METRICS

GRAFANA_DURATIONS = re.compile(r"\$(__rate_interval|__interval|__range)\b")
GRAFANA_VARIABLES = re.compile(r"\$\{?\w+\}?")
SCRAPE_LABELS = {"job", "instance"}
"""What Prometheus adds to every series."""


class Reading(NamedTuple):
    """A metric that an expression reads, by its exposed name, and the labels it must have."""

    name: str
    labels: frozenset[str]


def exposed_labels() -> dict[str, set[str]]:
    """The labels of every series that `/metrics` shows, by its exposed name."""
    labels: dict[str, set[str]] = {"up": set(SCRAPE_LABELS)}
    for spec in METRICS:
        own = SCRAPE_LABELS | set(spec.labels)
        name = f"{PREFIX}_{spec.name}"
        match spec.kind:
            case "counter":
                labels[f"{name}_total"] = own
            case "gauge":
                labels[name] = own
            case "histogram":
                labels[f"{name}_bucket"] = own | {"le"}
                labels[f"{name}_sum"] = labels[f"{name}_count"] = own
    return labels


def readings(expression: str) -> list[Reading]:
    """The metrics that an expression reads; Grafana's variables are filled in.

    Raises ValueError if it is not PromQL.
    """
    filled = GRAFANA_VARIABLES.sub("x", GRAFANA_DURATIONS.sub("1m", expression))
    found: list[Reading] = []
    grouping: list[set[str]] = []

    def enter(node: Expr) -> None:
        if isinstance(node, AggregateExpr):
            grouping.append(set(node.modifier.labels) if node.modifier else set())
        elif isinstance(node, VectorSelector):
            found.append(_reading(node, grouping))

    def leave(node: Expr) -> None:
        if isinstance(node, AggregateExpr):
            grouping.pop()

    promql_parser.walk(promql_parser.parse(filled), enter, leave)
    return found


def _reading(selector: VectorSelector, grouping: list[set[str]]) -> Reading:
    matched = {matcher.name for matcher in selector.matchers.matchers}
    return Reading(str(selector.name), frozenset(matched.union(*grouping)))


def unknown_parts(expression: str) -> list[str]:
    """What an expression reads that no process exposes, in words; nothing if all is well."""
    exposed = exposed_labels()
    problems = []
    for reading in readings(expression):
        if reading.name not in exposed:
            problems.append(f"{reading.name} does not exist")
        elif unknown := reading.labels - exposed[reading.name]:
            problems.append(f"{reading.name} has no label {', '.join(sorted(unknown))}")
    return problems
