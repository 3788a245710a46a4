"""Tables of a page: the pass lines, and every condition in numbers."""

from collections.abc import Sequence
from html import escape

from loadtests.simulation.judge import Verdict
from loadtests.simulation.report.comparison import against_peer, ranked, ratio_words
from loadtests.simulation.report.conditions import ByPolicy
from loadtests.simulation.report.measures import MEASURES, Measure
from loadtests.simulation.report.palette import OURS


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """A row a pass line."""
    rows = "".join(
        f'<tr><td><span class="mark {"yes" if v.passed else "no"}">{"✓" if v.passed else "✗"}</span>'
        f"</td><td>{escape(v.line)}</td><td class='number'>{escape(v.measured)}</td></tr>"
        for v in verdicts
    )
    return f"<table>{rows}</table>"


def condition_table(policies: ByPolicy) -> str:
    """A row a policy, the best first; medians over the seeds with their range below."""
    heads = "".join(f"<th>{escape(_heading(measure))}</th>" for measure in MEASURES)
    rows = "".join(_row(policies, policy) for policy in ranked(policies))
    return (
        '<div class="wide"><table class="numbers"><thead><tr><th>policy</th><th>TTFT mean '
        f"vs vllm</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _heading(measure: Measure) -> str:
    return f"{measure.heading}, {measure.unit}" if measure.unit else measure.heading


def _row(policies: ByPolicy, policy: str) -> str:
    cells = [f"<td>{ratio_words(against_peer(policies, policy))}</td>"]
    for measure in MEASURES:
        spread = measure.spread(policies[policy])
        low, high = measure.text(spread.low), measure.text(spread.high)
        extent = f"<small>{low}–{high}</small>" if low != high else ""
        cells.append(f"<td>{measure.text(spread.median)}{extent}</td>")
    kind = ' class="ours"' if policy == OURS else ""
    return f"<tr{kind}><th>{escape(policy)}</th>{''.join(cells)}</tr>"
