"""Verdicts for a terminal, and as the table of `docs/drills.md`."""

from collections.abc import Sequence

from loadtests.drills.verdict import Verdict

_MARKS = {True: "✓", False: "✗"}


def verdict_text(verdict: Verdict) -> str:
    """A line for each check, the figures, and the verdict last."""
    lines = [
        f"  {_MARKS[check.passed]} {check.label}{f'  ({check.detail})' if check.detail else ''}"
        for check in verdict.checks
    ]
    lines += [f"    {figure.label}: {figure.text}" for figure in verdict.figures]
    reason = f": {verdict.reason}" if verdict.reason else ""
    return "\n".join(
        [*lines, f"{verdict.name} {verdict.outcome}{reason} ({verdict.seconds:.0f} s)"]
    )


def summary_text(verdicts: Sequence[Verdict]) -> str:
    """One line about all of them."""
    failed = [verdict.name for verdict in verdicts if verdict.outcome == "failed"]
    skipped = [verdict.name for verdict in verdicts if verdict.outcome == "skipped"]
    num_passed = len(verdicts) - len(failed) - len(skipped)
    text = f"{num_passed} of {len(verdicts)} drills passed"
    text += f"; failed: {', '.join(failed)}" if failed else ""
    return text + (f"; skipped: {', '.join(skipped)}" if skipped else "")


def markdown_table(verdicts: Sequence[Verdict], machine: str) -> str:
    """The table of a run, with the machine in words above it."""
    lines = [
        f"Measured on {machine}, which the load shares with the cluster.",
        "",
        "| drill | what must hold | verdict | figures |",
        "|---|---|---|---|",
    ]
    for verdict in verdicts:
        figures = "; ".join(f"{figure.label}: {figure.text}" for figure in verdict.figures)
        outcome = f"skipped: {verdict.reason}" if verdict.reason else verdict.outcome
        cells = (f"`{verdict.name}`", verdict.promise, outcome, figures)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, ""])
