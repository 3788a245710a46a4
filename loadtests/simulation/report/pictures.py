"""Every picture of a report, by its file name."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from loadtests.simulation.outcome import Outcome
from loadtests.simulation.report.bars import bar_figure
from loadtests.simulation.report.conditions import main_conditions, sweeps_over
from loadtests.simulation.report.drawing import our_look, save, settle
from loadtests.simulation.report.lines import AGE, FRONTENDS, LOAD, line_figure
from loadtests.simulation.report.measures import GOODPUT, HIT_RATE, IMBALANCE, TTFT_MEAN

_BARS = (
    ("ttft-by-policy", "Time to first token by policy", TTFT_MEAN),
    ("goodput", "Goodput", GOODPUT),
    ("imbalance", "Imbalance", IMBALANCE),
    ("hit-rate", "Cache hits", HIT_RATE),
)
_LINES = (
    ("ttft-over-load", "As the load rises", LOAD),
    ("ttft-over-age", "As the data age", AGE),
    ("ttft-over-frontends", "As frontends become more", FRONTENDS),
)


class Picture(NamedTuple):
    """A figure with what stands over it on a page."""

    name: str
    title: str
    figure: Figure


def pictures_of(outcomes: Sequence[Outcome]) -> Iterator[Picture]:
    """The pictures for which there are outcomes; to be drawn and saved under `our_look`."""
    for picture in (*_bar_pictures(outcomes), *_line_pictures(outcomes)):
        settle(picture.figure)
        yield picture


def _bar_pictures(outcomes: Sequence[Outcome]) -> Iterator[Picture]:
    panels = main_conditions(outcomes)
    for name, title, measure in _BARS:
        shown = {
            condition: policies
            for condition, policies in panels.items()
            if any(measure.spread(runs).high > 0 for runs in policies.values())
        }
        if shown:
            yield Picture(name, title, bar_figure(shown, measure))


def _line_pictures(outcomes: Sequence[Outcome]) -> Iterator[Picture]:
    for name, title, axis in _LINES:
        sweeps = sweeps_over(outcomes, axis.field)
        if sweeps:
            yield Picture(name, title, line_figure(sweeps, axis, TTFT_MEAN))


def save_pictures(outcomes: Sequence[Outcome], directory: Path) -> None:
    """Write each as PNG and SVG into the folder."""
    with our_look():
        for picture in pictures_of(outcomes):
            save(picture.figure, directory, picture.name)
