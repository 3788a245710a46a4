"""Figures on paper and on pages: one look, saved as PNG and SVG, or put into a page."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.typing import RcKeyType

from loadtests.simulation.report.palette import GRID, SOFT, TEXT, all_inks

PNG_DOTS_PER_INCH = 160

_LOOK: dict[RcKeyType, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": TEXT.light,
    "axes.facecolor": "none",
    "axes.edgecolor": GRID.light,
    "axes.labelcolor": SOFT.light,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": TEXT.light,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID.light,
    "grid.linewidth": 0.8,
    "xtick.color": GRID.light,
    "ytick.color": GRID.light,
    "xtick.labelcolor": SOFT.light,
    "ytick.labelcolor": TEXT.light,
}


@contextmanager
def our_look() -> Iterator[None]:
    """Figures that are made inside look like ours."""
    with mpl.rc_context(_LOOK):
        yield


def new_panels(
    num_panels: int, columns: int, panel_inches: tuple[float, float]
) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, row by row; places that are left over stay empty."""
    columns = min(columns, num_panels)
    rows = -(-num_panels // columns)
    width, height = panel_inches
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
    figure = Figure(figsize=(width * columns, height * rows), layout=layout)
    grid = figure.subplots(rows, columns, squeeze=False)
    panels: list[Axes] = list(grid.flat)
    for empty in panels[num_panels:]:
        empty.set_axis_off()
    return figure, panels[:num_panels]


def settle(figure: Figure) -> None:
    """Find the places of everything in the figure now, once for all the ways to save it."""
    layout = figure.get_layout_engine()
    assert layout is not None, "new_panels gives every figure one"
    layout.execute(figure)
    figure.set_layout_engine("none")


def add_title(figure: Figure, title: str, unit: str) -> None:
    """What all panels show, over all of them."""
    words = f"{title}, {unit}" if unit else title
    figure.suptitle(words, x=0.012, ha="left", fontsize=12, fontweight="bold")


def save(figure: Figure, directory: Path, name: str) -> None:
    """Write `name.png` and `name.svg`, on white."""
    figure.savefig(directory / f"{name}.png", dpi=PNG_DOTS_PER_INCH, facecolor="white")
    (directory / f"{name}.svg").write_bytes(_svg(figure, name, "path", facecolor="white"))


def inline_svg(figure: Figure, name: str) -> str:
    """The figure for a page that has a CSS variable for each of our colours (`colour_variables`).

    Its text stays text, in the page's font; its identifiers begin with what only this name gives.
    """
    text = _svg(figure, name, "none", facecolor="none").decode()
    text = text[text.index("<svg") :]
    for variable, ink in all_inks().items():
        text = text.replace(ink.light, f"var(--{variable})")
    return text


def colour_variables(is_dark: bool) -> str:
    """The CSS declarations of our colours."""
    return " ".join(
        f"--{variable}: {ink.dark if is_dark else ink.light};"
        for variable, ink in all_inks().items()
    )


def _svg(figure: Figure, name: str, font_type: str, facecolor: str) -> bytes:
    settings: dict[RcKeyType, Any] = {"svg.fonttype": font_type, "svg.hashsalt": name}
    buffer = io.BytesIO()
    with mpl.rc_context(settings):
        # Without a date, equal figures are equal files.
        figure.savefig(buffer, format="svg", facecolor=facecolor, metadata={"Date": None})
    return buffer.getvalue()
