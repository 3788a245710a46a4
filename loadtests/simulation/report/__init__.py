"""Outcomes of simulated runs for people: a page, pictures, and tables for a document.

Pictures need matplotlib, the extra `plots`; it is imported only where something is drawn.
"""

from collections.abc import Sequence
from pathlib import Path

from loadtests.simulation.judge import Verdict
from loadtests.simulation.outcome import Outcome
from loadtests.simulation.report.markdown import figures_markdown, put_between_markers


def write_html(outcomes: Sequence[Outcome], verdicts: Sequence[Verdict], path: Path) -> None:
    """Write one page with verdicts, pictures and tables, whole in itself.

    Raises ImportError if matplotlib is not installed.
    """
    from loadtests.simulation.report.page import report_page

    path.write_text(report_page(outcomes, verdicts))


def write_plots(outcomes: Sequence[Outcome], directory: Path) -> None:
    """Write every picture there are outcomes for, as PNG and SVG; makes the folder.

    Raises ImportError if matplotlib is not installed.
    """
    from loadtests.simulation.report.pictures import save_pictures

    directory.mkdir(parents=True, exist_ok=True)
    save_pictures(outcomes, directory)


def write_markdown(outcomes: Sequence[Outcome], verdicts: Sequence[Verdict], path: Path) -> None:
    """Write the tables between the markers of the file, or alone if it has none."""
    put_between_markers(path, figures_markdown(outcomes, verdicts))
