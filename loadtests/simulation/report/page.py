"""One page about simulated runs: verdicts, pictures and tables; no asset but itself."""

from collections.abc import Sequence
from html import escape

from loadtests.simulation.judge import Verdict
from loadtests.simulation.outcome import Outcome
from loadtests.simulation.report.conditions import ByPolicy, Condition, by_condition
from loadtests.simulation.report.drawing import colour_variables, inline_svg, our_look
from loadtests.simulation.report.pictures import Picture, pictures_of
from loadtests.simulation.report.tables import condition_table, verdict_table

_LIGHT = "--paper: #fff; --desk: #f5f6f8; --line: #e4e7ec; --good: #1e7a3c; --bad: #c62828;"
_DARK = "--paper: #171b22; --desk: #0f1217; --line: #2c333f; --good: #5fd08a; --bad: #ff7b72;"
_STYLE = f"""
:root {{ color-scheme: light dark; {_LIGHT} {colour_variables(is_dark=False)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} {colour_variables(is_dark=True)} }} }}
body {{ margin: 0; background: var(--desk); color: var(--ink-text);
  font: 15px/1.5 system-ui, sans-serif; }}
main {{ max-width: 1120px; margin: 0 auto; padding: 24px 16px 80px; }}
h1 {{ font-size: 24px; margin: 8px 0 4px; }} h2 {{ font-size: 19px; margin: 0 0 8px; }}
h3 {{ font-size: 15px; margin: 0; }} p {{ margin: 4px 0; }} .soft, small {{ color: var(--ink-soft); }}
section {{ background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
  padding: 20px 24px; margin: 20px 0; }}
svg {{ display: block; max-width: 100%; height: auto; }}
.wide {{ overflow-x: auto; margin: 8px 0 24px; }} small {{ display: block; font-size: 11px; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ text-align: left; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; font-weight: normal; }}
.number, .numbers td, .numbers thead th {{ text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }}
.numbers {{ font-size: 13px; }} .numbers th:first-child {{ text-align: left; }}
.numbers thead th {{ color: var(--ink-soft); font-size: 12px; white-space: normal; }}
.ours td, .ours th {{ font-weight: 650; color: var(--ink-marginal-cost); }}
.mark {{ font-weight: 700; }} .yes {{ color: var(--good); }} .no {{ color: var(--bad); }}
"""


def report_page(outcomes: Sequence[Outcome], verdicts: Sequence[Verdict]) -> str:
    """The whole page as HTML."""
    num_passed = sum(verdict.passed for verdict in verdicts)
    with our_look():
        pictures = "".join(map(_picture_section, pictures_of(outcomes)))
    judged = ""
    if verdicts:
        judged = f"<section><h2>Pass lines</h2>{verdict_table(verdicts)}</section>"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Routing policies, simulated</title><style>{_STYLE}</style></head><body><main>"
        f'<h1>Routing policies, simulated</h1><p class="soft">{_summary(outcomes)}'
        f"{f' · {num_passed} of {len(verdicts)} pass lines hold' if verdicts else ''}</p>"
        f"{judged}{pictures}{_tables(outcomes)}</main></body></html>\n"
    )


def _summary(outcomes: Sequence[Outcome]) -> str:
    seeds = {outcome.seed for outcome in outcomes}
    policies = {outcome.policy for outcome in outcomes}
    return (
        f"{len(outcomes)} runs: {len(policies)} policies, {len(seeds)} seeds. Numbers are medians "
        "over the seeds; beside them, and as lines and bands, the lowest and highest seed"
    )


def _picture_section(picture: Picture) -> str:
    svg = inline_svg(picture.figure, picture.name)
    return f'<section id="{picture.name}"><h2>{escape(picture.title)}</h2>{svg}</section>'


def _tables(outcomes: Sequence[Outcome]) -> str:
    parts = [_table(*item) for item in by_condition(outcomes).items()]
    return f"<section><h2>Every condition in numbers</h2>{''.join(parts)}</section>"


def _table(condition: Condition, policies: ByPolicy) -> str:
    return (
        f"<h3>{escape(condition.workload)}</h3>"
        f'<p class="soft">{escape(condition.words)}</p>{condition_table(policies)}'
    )
