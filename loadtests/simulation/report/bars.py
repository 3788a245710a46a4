"""A bar a policy, a panel a workload: who does well where."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadtests.simulation.report.conditions import ByPolicy, Condition
from loadtests.simulation.report.drawing import add_title, new_panels
from loadtests.simulation.report.measures import Measure
from loadtests.simulation.report.palette import OURS, SOFT, TEXT, bar_ink
from loadtests.simulation.report.spread import Spread

COLUMNS = 2
PANEL_WIDTH_INCHES, BAR_INCHES, PANEL_FRAME_INCHES = 5.0, 0.23, 0.75
LABEL_ROOM = 1.22
"""How much longer than the longest bar the axis is, for the number behind it."""


def bar_figure(panels: Mapping[Condition, ByPolicy], measure: Measure) -> Figure:
    """Medians over the seeds with their range, the best first."""
    most = max(map(len, panels.values()))
    size = (PANEL_WIDTH_INCHES, BAR_INCHES * most + PANEL_FRAME_INCHES)
    figure, axes = new_panels(len(panels), COLUMNS, size)
    for place, (condition, policies) in zip(axes, panels.items(), strict=True):
        _draw_panel(place, condition, policies, measure)
    add_title(figure, measure.title, measure.unit)
    return figure


def _draw_panel(axes: Axes, condition: Condition, policies: ByPolicy, measure: Measure) -> None:
    spreads = {policy: measure.spread(runs) for policy, runs in policies.items()}
    names = sorted(
        spreads, key=lambda policy: spreads[policy].median, reverse=measure.is_more_better
    )
    for row, policy in enumerate(names):
        _draw_bar(axes, row, policy, spreads[policy], measure)
    axes.set_yticks(range(len(names)), names)
    for label, policy in zip(axes.get_yticklabels(), names, strict=True):
        label.set_fontweight(_weight(policy))
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, LABEL_ROOM * max(spread.high for spread in spreads.values()))
    axes.tick_params(length=0)
    axes.grid(axis="x")
    axes.locator_params(axis="x", nbins=5)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_title(condition.workload, pad=15)
    axes.annotate(
        condition.words,
        (0, 1), xycoords="axes fraction", xytext=(0, 2), textcoords="offset points",
        fontsize=7, color=SOFT.light, va="bottom",
    )  # fmt: skip


def _draw_bar(axes: Axes, row: int, policy: str, spread: Spread, measure: Measure) -> None:
    axes.barh(row, spread.median, height=0.68, color=bar_ink(policy).light)
    axes.plot([spread.low, spread.high], [row, row], color=TEXT.light, linewidth=1.2)
    axes.annotate(
        measure.text(spread.median),
        (spread.high, row), xytext=(4, 0), textcoords="offset points",
        va="center", color=TEXT.light, fontweight=_weight(policy),
    )  # fmt: skip


def _weight(policy: str) -> str:
    return "bold" if policy == OURS else "normal"
