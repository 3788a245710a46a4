"""A line a policy, a panel a workload: what happens as load, age or the number of frontends rises."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from loadtests.simulation.report.conditions import Sweep, SweptField
from loadtests.simulation.report.drawing import add_title, new_panels
from loadtests.simulation.report.measures import Measure
from loadtests.simulation.report.palette import ORACLE, OURS, PEER, ink_of

COLUMNS = 2
PANEL_INCHES = (5.0, 3.6)
LABEL_DISTANCE = 0.052
"""Between two labels at the lines' ends, as a share of the panel's height."""


class SweptAxis(NamedTuple):
    """The axis along which a sweep goes."""

    field: SweptField
    label: str
    scale: float = 1.0
    """From the unit of the outcome to the one that is shown."""
    is_doubling: bool = False
    """Values that double are equally far apart."""


LOAD = SweptAxis("load", "load, % of the engines' capacity", 100)
AGE = SweptAxis("age_seconds", "age of the data, ms", 1000, is_doubling=True)
FRONTENDS = SweptAxis("frontends", "frontends", is_doubling=True)


def line_figure(sweeps: Sequence[Sweep], axis: SweptAxis, measure: Measure) -> Figure:
    """Medians over the seeds on a logarithmic scale; the ranges as a band around ours."""
    figure, panels = new_panels(len(sweeps), COLUMNS, PANEL_INCHES)
    for place, sweep in zip(panels, sweeps, strict=True):
        _draw_panel(place, sweep, axis, measure)
    add_title(figure, measure.title, measure.unit)
    return figure


def _draw_panel(axes: Axes, sweep: Sweep, axis: SweptAxis, measure: Measure) -> None:
    ends: dict[str, tuple[float, float]] = {}
    for policy in sorted(sweep.policies, key=_emphasis):
        points = {
            x * axis.scale: measure.spread(policies[policy])
            for x, policies in sweep.points.items()
            if policy in policies
        }
        xs, spreads = list(points), list(points.values())
        colour, emphasis = ink_of(policy).light, _emphasis(policy)
        axes.plot(
            xs, [spread.median for spread in spreads],
            color=colour, linewidth=(1.1, 1.6, 2.6)[emphasis], zorder=2 + emphasis,
            linestyle=(0, (4, 2)) if policy == ORACLE else "-",
            marker="o", markersize=(2.5, 3.0, 4.5)[emphasis],
        )  # fmt: skip
        if policy == OURS:
            lows, highs = [s.low for s in spreads], [s.high for s in spreads]
            axes.fill_between(xs, lows, highs, color=colour, alpha=0.15, linewidth=0)
        ends[policy] = xs[-1], spreads[-1].median
    _scale(axes, sweep, axis)
    _label_ends(axes, ends)
    axes.set_title(f"{sweep.workload}, {sweep.scenario}")
    axes.set_xlabel(axis.label)


def _emphasis(policy: str) -> int:
    """0 to 2: what is drawn last and thickest is ours."""
    return 2 if policy == OURS else int(policy in (PEER, ORACLE))


def _scale(axes: Axes, sweep: Sweep, axis: SweptAxis) -> None:
    if axis.is_doubling:
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator([x * axis.scale for x in sweep.points]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y")
    axes.tick_params(length=0)
    axes.tick_params(which="minor", length=0)
    axes.spines["left"].set_visible(False)


def _label_ends(axes: Axes, ends: Mapping[str, tuple[float, float]]) -> None:
    """Write each policy's name behind its line, moved apart where lines end together."""
    to_share = axes.transData + axes.transAxes.inverted()
    heights = {policy: float(to_share.transform(end)[1]) for policy, end in ends.items()}
    for policy, height in moved_apart(heights, LABEL_DISTANCE).items():
        axes.annotate(
            policy,
            ends[policy], xycoords="data",
            xytext=(1.03, height), textcoords="axes fraction",
            va="center", fontsize=8, color=ink_of(policy).light,
            fontweight="bold" if policy == OURS else "normal", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": ink_of(policy).light, "linewidth": 0.5,
                        "shrinkA": 1, "shrinkB": 3, "alpha": 0.6},
        )  # fmt: skip


def moved_apart(heights: Mapping[str, float], distance: float) -> dict[str, float]:
    """The heights in their order, each at least so far above the one below, moved no more than needed.

    Groups that would overlap are put side by side around the middle of where they want to be.
    """
    groups: list[list[str]] = []
    for name in sorted(heights, key=heights.__getitem__):
        groups.append([name])
        while len(groups) > 1 and _overlap(groups[-2], groups[-1], heights, distance):
            last = groups.pop()
            groups[-1].extend(last)
    return {
        name: _bottom(group, heights, distance) + index * distance
        for group in groups
        for index, name in enumerate(group)
    }


def _bottom(group: Sequence[str], heights: Mapping[str, float], distance: float) -> float:
    middle = sum(heights[name] for name in group) / len(group)
    return middle - distance * (len(group) - 1) / 2


def _overlap(
    lower: Sequence[str], upper: Sequence[str], heights: Mapping[str, float], distance: float
) -> bool:
    top = _bottom(lower, heights, distance) + distance * (len(lower) - 1)
    return _bottom(upper, heights, distance) < top + distance
