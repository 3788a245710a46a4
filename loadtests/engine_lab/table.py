"""A report for a terminal."""

from collections.abc import Iterator

from loadtests.engine_lab.lines import Line
from loadtests.engine_lab.overhead import Overhead
from loadtests.engine_lab.report import EngineReport
from loadtests.engine_lab.row import Row

_LABEL_WIDTH = 34
_QUIET_SHARE = 0.05
"""As much as a machine does that has nothing to do."""
_HEADINGS = ("ms a step", "tok/s", "generate", "ratio", "limit", "of it")


def report_text(report: EngineReport) -> str:
    """The whole of it, without a line end after the last line."""
    return "\n".join(_text_lines(report))


def _text_lines(report: EngineReport) -> Iterator[str]:
    limits, cost = report.limits, report.cost
    yield (
        f"{report.model} on {report.device}, {report.threads} threads, "
        f"quantization {report.quantization}; medians"
    )
    yield (
        f"limits at their best: {limits.read_bytes_per_second / 1e9:.1f} GB/s, "
        f"{limits.flops_per_second / 1e9:.0f} GFLOP/s; a step reads "
        f"{(cost.body_weights + cost.head_weights) * cost.weight_bytes / 1e6:.0f} MB of weights, and "
        f"{cost.kv_bytes_per_token / 1e3:.1f} kB a token of context"
    )
    yield (
        f"others took {report.others_share:.0%} of the processors meanwhile"
        f"{'' if report.others_share < _QUIET_SHARE else ': THE FIGURES MEAN LITTLE'}"
    )
    yield ""
    yield f"{'':<{_LABEL_WIDTH}}" + "".join(f"{heading:>11}" for heading in _HEADINGS)
    yield from map(row_text, report.rows)
    yield ""
    yield from map(_overhead_text, report.overheads)
    yield ""
    yield from map(line_text, report.lines)


def row_text(row: Row) -> str:
    """One kind of step; tokens a second of this engine, of `generate`, and at the machine's limit."""
    reference, ratio = row.reference_tokens_per_second, row.ratio
    cells = (
        f"{row.seconds * 1000:.1f}",
        f"{row.tokens_per_second:.1f}",
        "–" if reference is None else f"{reference:.1f}",
        "–" if ratio is None else f"{ratio:.2f}×",
        f"{row.tokens / row.floor_seconds:.1f}",
        f"{row.share:.0%}",
    )
    return f"{row.label:<{_LABEL_WIDTH}}" + "".join(f"{cell:>11}" for cell in cells)


def _overhead_text(overhead: Overhead) -> str:
    return (
        f"scheduler, {overhead.runner}, batch {overhead.batch}: "
        f"{overhead.outside_seconds * 1000:.3f} ms of a step of "
        f"{overhead.step_seconds * 1000:.3f} ms, {overhead.share:.1%}"
    )


def line_text(line: Line) -> str:
    """A line, and whether it is kept."""
    verdict = "kept  " if line.is_kept else "MISSED"
    demand = "at least" if line.is_least else "below"
    return f"{verdict}  {line.label:<54}{line.value:>8.2f} {line.unit}, {demand} {line.limit:g}"
