"""The outcomes as tables for `docs/balancing.md`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from loadtests.simulation.judge import AS_IN_PRODUCTION, Verdict
from loadtests.simulation.outcome import Outcome
from loadtests.simulation.report.comparison import against_peer, ratio_words
from loadtests.simulation.report.conditions import ByPolicy, Condition, main_conditions
from loadtests.simulation.report.measures import TTFT_MEAN
from loadtests.simulation.report.palette import ORACLE, OURS, PEER
from loadtests.simulation.scenario import Fault

BEGIN, END = "<!-- simulated figures: begin -->", "<!-- simulated figures: end -->"
_FIRST_ROWS = (OURS, ORACLE, PEER)


def figures_markdown(outcomes: Sequence[Outcome], verdicts: Sequence[Verdict]) -> str:
    """Mean time to first token by policy and workload, and under it the pass lines."""
    conditions = main_conditions(outcomes)
    lines = ["Mean time to first token in ms, median of the seeds; in brackets against `vllm`.", ""]
    lines += _by_policy(conditions)
    if verdicts:
        lines += ["", "| pass line | measured | holds |", "|---|---|---|"]
        lines += [
            f"| {verdict.line} | {verdict.measured} | {'yes' if verdict.passed else '**no**'} |"
            for verdict in verdicts
        ]
    return "\n".join([*lines, ""])


def put_between_markers(path: Path, text: str) -> None:
    """Replace what lies between the two markers of a page; a file without them becomes the text."""
    page = path.read_text() if path.exists() else ""
    if BEGIN in page and END in page:
        before, after = page.partition(BEGIN)[0], page.partition(END)[2]
        text = f"{before}{BEGIN}\n{text}{END}{after}"
    path.write_text(text)


def _by_policy(conditions: Mapping[Condition, ByPolicy]) -> list[str]:
    names = {policy for policies in conditions.values() for policy in policies}
    rows = [name for name in _FIRST_ROWS if name in names] + sorted(names - set(_FIRST_ROWS))
    heads = [_head(condition) for condition in conditions]
    return [
        f"| policy | {' | '.join(heads)} |",
        f"|---|{'--:|' * len(heads)}",
        *(
            f"| `{name}` | {' | '.join(_cell(policies, name) for policies in conditions.values())} |"
            for name in rows
        ),
    ]


def _head(condition: Condition) -> str:
    usual = {AS_IN_PRODUCTION: "", Fault.EQUAL: f", data {condition.age_seconds * 1000:g} ms old"}
    unusual = usual.get(condition.scenario, f", {condition.scenario}")
    return f"{condition.workload}{unusual}, {condition.load:.0%}"


def _cell(policies: ByPolicy, policy: str) -> str:
    if policy not in policies:
        return "–"
    text = TTFT_MEAN.text(TTFT_MEAN.spread(policies[policy]).median)
    ratio = against_peer(policies, policy)
    return text if ratio is None else f"{text} ({ratio_words(ratio)})"
