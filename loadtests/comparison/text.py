"""A comparison for a terminal, and as the tables of a page."""

from collections.abc import Iterator, Sequence

from loadtests.comparison.comparison import Comparison
from loadtests.comparison.load_plan import LoadPlan
from loadtests.comparison.summary import Measure, PolicySummary
from loadtests.comparison.trial import Trial
from loadtests.comparison.verdict import Verdict, ttft_ratios
from loadtests.report import percentile

REFERENCE = "vllm"
HEADINGS = ("policy", "TTFT mean", "p50", "p99", "ITL p50", "p99", "E2E mean", "hit rate",
            "busiest", "failed", "processors", f"TTFT / {REFERENCE}")  # fmt: skip
NOTE = (
    "Times in milliseconds: the median of the rounds, and from the lowest to the highest where "
    "there are several. Busiest: requests of the busiest engine over the mean. Processors: share "
    "of the machine's that the cluster took."
)
_MARKS = {True: "✓", False: "✗", None: "–"}


def trial_text(trial: Trial) -> str:
    """One line about a trial that is over."""
    report = trial.report
    ttft = f"{report.ttft_seconds.mean * 1000:.0f} ms" if report.ttft_seconds else "none"
    failed = "".join(
        f"; {number} × {kind}: {report.error_examples[kind]}"
        for kind, number in report.errors.items()
    )
    restarted = "".join(f"; engine {rank} was restarted" for rank in report.engine_restarts or ())
    return (
        f"{trial.load}, round {trial.round + 1}, {trial.policy}: TTFT {ttft}, "
        f"{report.completed} of {report.requests} in {report.duration_seconds:.0f} s, "
        f"hits {trial.hit_share:.0%}, processors {trial.processor_share:.0%}{failed}"
        f"{restarted}"
    )


def comparison_text(comparison: Comparison, plans: Sequence[LoadPlan]) -> str:
    """The whole comparison for a terminal."""
    lines = []
    for plan in plans:
        rows = [HEADINGS, *_rows(comparison, plan)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += [f"{plan.name}: {plan.meaning}", ""]
        lines += ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
                  for row in rows]  # fmt: skip
        lines += [*map(verdict_line, _verdicts(comparison, plan)), ""]
    return "\n".join([*lines, NOTE])


def comparison_markdown(comparison: Comparison, plans: Sequence[LoadPlan], machine: str) -> str:
    """The same as a page, with the machine in words above it."""
    head = (
        f"Measured on {machine}, which the load shares with the cluster: {comparison.engines} "
        f"engines, {comparison.frontends} frontends, {comparison.rounds} rounds from seed "
        f"{comparison.seed}."
    )
    lines = [head, "", NOTE]
    for plan in plans:
        lines += ["", f"## {plan.name}", "", f"{plan.meaning[0].upper()}{plan.meaning[1:]}.", ""]
        lines += [_markdown_row(HEADINGS), "|---" * len(HEADINGS) + "|"]
        lines += map(_markdown_row, _rows(comparison, plan))
        lines += ["", *map(verdict_line, _verdicts(comparison, plan))]
    return "\n".join([*lines, ""])


def verdict_line(verdict: Verdict) -> str:
    """One line of the comparison, and whether it was kept."""
    return f"{_MARKS[verdict.passed]} {verdict.load}: {verdict.promise} ({verdict.found})"


def _verdicts(comparison: Comparison, plan: LoadPlan) -> list[Verdict]:
    return [verdict for verdict in comparison.verdicts if verdict.load == plan.name]


def _rows(comparison: Comparison, plan: LoadPlan) -> Iterator[tuple[str, ...]]:
    trials = [trial for trial in comparison.trials if trial.load == plan.name]
    for summary in comparison.summaries:
        if summary.load == plan.name:
            ratios = sorted(ttft_ratios(trials, summary.policy, REFERENCE))
            yield (*_cells(summary), f"{percentile(ratios, 0.5):.2f}" if ratios else "")


def _cells(summary: PolicySummary) -> tuple[str, ...]:
    return (
        summary.policy,
        _milliseconds(summary.ttft_mean_seconds),
        _milliseconds(summary.ttft_p50_seconds),
        _milliseconds(summary.ttft_p99_seconds),
        _milliseconds(summary.itl_p50_seconds),
        _milliseconds(summary.itl_p99_seconds),
        _milliseconds(summary.e2e_mean_seconds),
        f"{summary.hit_share.median:.0%}",
        f"{summary.busiest_share.median:.2f}",
        f"{summary.failed_requests} of {summary.requests}",
        f"{summary.processor_share.median:.0%}",
    )


def _milliseconds(measure: Measure) -> str:
    low, middle, high = (
        f"{value * 1000:.0f}" for value in (measure.lowest, measure.median, measure.highest)
    )
    return middle if low == high else f"{middle} ({low}–{high})"


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
