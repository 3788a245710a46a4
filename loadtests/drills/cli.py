"""`cluster drill`: breaks clusters on purpose, and tells what came of it."""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence

import msgspec

from loadtests.drills.arguments import add_arguments
from loadtests.drills.catalog import all_drills
from loadtests.drills.drill import Drill
from loadtests.drills.page import drill_page
from loadtests.drills.runner import run_drill
from loadtests.drills.stage import Stage, machine_in_words
from loadtests.drills.verdict import Verdict
from loadtests.drills.verdict_text import markdown_table, summary_text, verdict_text

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
QUICK_SCALE = 0.1


def build_parser() -> argparse.ArgumentParser:
    """The parser of `cluster drill`."""
    parser = argparse.ArgumentParser(
        prog="cluster drill",
        description="Start a cluster, break it on purpose under load, and check that nobody noticed.",
    )
    add_arguments(parser)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run drills; 0 if all passed, 1 if one failed, 2 for wrong usage."""
    parsed = build_parser().parse_args(arguments)
    if parsed.list:
        for drill in all_drills():
            print(
                f"{drill.name:20} {'harmless  ' if drill.harmless else '          '}{drill.promise}"
            )
        return 0
    problem = _problem(parsed)
    if problem:
        print(f"cluster drill: {problem}", file=sys.stderr)
        return EXIT_USAGE
    drills = [drill for drill in all_drills() if parsed.all or drill.name in parsed.names]
    if parsed.against and parsed.all:
        drills = [drill for drill in drills if drill.harmless]
    with contextlib.suppress(OSError, ValueError):
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    verdicts: list[Verdict] = []
    try:
        asyncio.run(_run_all(drills, parsed, verdicts))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    finally:
        _write(verdicts, parsed)
    if len(verdicts) > 1:
        print(summary_text(verdicts))
    return EXIT_FAILED if any(verdict.outcome == "failed" for verdict in verdicts) else 0


async def _run_all(
    drills: Sequence[Drill], parsed: argparse.Namespace, verdicts: list[Verdict]
) -> None:
    options = {name: getattr(parsed, name) for name in ("minutes", "kills", "engines")}
    for drill in drills:
        print(f"{drill.name}: {drill.promise}", flush=True)
        stage = Stage(
            scale=QUICK_SCALE if parsed.quick else 1.0,
            uses_model=parsed.model,
            attached_url=parsed.against,
            cluster_id=parsed.cluster,
            options={name: value for name, value in options.items() if value is not None},
        )
        verdicts.append(await run_drill(drill, stage, parsed.keep_logs))
        print(verdict_text(verdicts[-1]), flush=True)


def _problem(parsed: argparse.Namespace) -> str:
    """What is wrong with a command line, in words; empty if nothing is."""
    known = {drill.name: drill for drill in all_drills()}
    unknown = [name for name in parsed.names if name not in known]
    if unknown:
        return f"there is no drill {', '.join(unknown)}; --list shows all"
    if bool(parsed.names) == parsed.all:
        return "name drills, or say --all, or --list"
    if parsed.against:
        if not parsed.i_mean_it:
            return f"{parsed.against} may serve others; --i-mean-it says that it may be drilled"
        harmful = [name for name in parsed.names if not known[name].harmless]
        if harmful:
            return f"{', '.join(harmful)} needs a cluster of its own, which --against excludes"
    elif parsed.i_mean_it:
        return "--i-mean-it goes with --against"
    return ""


def _write(verdicts: Sequence[Verdict], parsed: argparse.Namespace) -> None:
    if not verdicts:
        return
    machine = machine_in_words()
    if parsed.json:
        parsed.json.write_bytes(msgspec.json.encode(verdicts) + b"\n")
    if parsed.html:
        parsed.html.write_text(drill_page(verdicts, machine))
    if parsed.markdown:
        parsed.markdown.write_text(markdown_table(verdicts, machine))
