"""A comparison of servers for a terminal, and as the table of a page."""

from collections.abc import Iterator, Sequence

from loadtests.comparison.summary import Measure
from loadtests.peers_lab.comparison import Line, PeersComparison
from loadtests.peers_lab.figures import FIGURES, Figure
from loadtests.peers_lab.turn import Turn, errors_in_words

NOTE = (
    "The median of the rounds, in brackets the lowest and the highest. Ratios are of the same round. "
    "Start: from the command to the first token. Memory: of all processes after the load; pages that "
    "they share count once."
)
RATIO_DIGITS = 2
NONE = "–"
_MARKS = {True: "✓", False: "✗"}


def turn_text(turn: Turn) -> str:
    """One line about a turn that is over."""
    report = turn.report
    started = "" if turn.start_seconds is None else f", started in {turn.start_seconds:.1f} s"
    failed = f"; {errors_in_words(report)}" if report.errors else ""
    return (
        f"round {turn.round + 1}, {turn.server}: {report.output_tokens_per_second:.1f} output "
        f"tokens/s, {report.completed} of {report.requests} in {report.duration_seconds:.1f} s"
        f"{started}{failed}"
    )


def peers_text(comparison: PeersComparison) -> str:
    """The whole comparison for a terminal, without a line end after the last line."""
    rows = list(_rows(comparison))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines = map(line_text, comparison.lines)
    return "\n".join([_load(comparison), "", *table, "", *lines, NOTE])


def peers_markdown(comparison: PeersComparison, machine: str) -> str:
    """The same as a page, with the machine in words above it."""
    headings, *rows = _rows(comparison)
    lines = [f"Measured on {machine}, which the load shares with the servers: {_load(comparison)}."]
    lines += ["", _markdown_row(headings), "|---" * len(headings) + "|"]
    lines += map(_markdown_row, rows)
    lines += ["", *(f"- {line_text(line)}" for line in comparison.lines), ""]
    return "\n".join([*lines, NOTE, ""])


def line_text(line: Line) -> str:
    """What was demanded, and whether it was kept."""
    found = NONE if line.ratio is None else _spread(line.ratio, RATIO_DIGITS)
    return (
        f"{_MARKS[line.is_kept]} output tokens/s over those of {line.peer}: "
        f"at least {line.least_ratio:g} ({found})"
    )


def _load(comparison: PeersComparison) -> str:
    return f"{comparison.load}, {comparison.rounds} rounds from seed {comparison.seed}"


def _rows(comparison: PeersComparison) -> Iterator[tuple[str, ...]]:
    servers = [summary.server for summary in comparison.summaries]
    peers = [summary for summary in comparison.summaries if summary.server != comparison.candidate]
    yield ("", *servers, *(f"{comparison.candidate} / {peer.server}" for peer in peers))
    for figure in FIGURES:
        measures = [summary.figures[figure.key] for summary in comparison.summaries]
        if any(measure is not None for measure in measures):
            ratios = [_cell(peer.ratios[figure.key], 1.0, RATIO_DIGITS) for peer in peers]
            yield (figure.heading, *_cells(measures, figure), *ratios)
    failed = [f"{each.failed_requests} of {each.requests}" for each in comparison.summaries]
    yield ("failed requests", *failed, *("" for _ in peers))


def _cells(measures: Sequence[Measure | None], figure: Figure) -> list[str]:
    return [_cell(measure, figure.shown_factor, figure.digits) for measure in measures]


def _cell(measure: Measure | None, factor: float, digits: int) -> str:
    if measure is None:
        return NONE
    shown = Measure(measure.median * factor, measure.lowest * factor, measure.highest * factor)
    return _spread(shown, digits)


def _spread(measure: Measure, digits: int) -> str:
    middle, low, high = (
        f"{value:.{digits}f}" for value in (measure.median, measure.lowest, measure.highest)
    )
    return middle if low == high else f"{middle} [{low}–{high}]"


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
