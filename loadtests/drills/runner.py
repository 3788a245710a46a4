"""Runs one drill to its verdict, and leaves nothing behind."""

import asyncio
import shutil
import time
import traceback
from pathlib import Path

from loadtests.drills.drill import Drill, DrillError, DrillSkipped
from loadtests.drills.stage import Stage
from loadtests.drills.verdict import Verdict

RAN_TO_ITS_END = "the drill ran to its end"


async def run_drill(drill: Drill, stage: Stage, logs: Path | None = None) -> Verdict:
    """The verdict of a drill on a fresh stage. Cancelled, it cleans up all the same.

    `logs` is a folder that keeps the cluster's logs.
    """
    started_at = time.monotonic()
    limit = drill.limit_seconds + stage.asked_seconds
    reason = ""
    log_tail = ""
    try:
        try:
            async with asyncio.timeout(limit):
                await drill.run(stage)
        except DrillSkipped as skipped:
            reason = str(skipped)
        except TimeoutError:
            stage.check(RAN_TO_ITS_END, False, f"not within {limit:g} s")
        except DrillError as error:
            stage.check(RAN_TO_ITS_END, False, str(error))
        except Exception as error:  # noqa: BLE001  # whatever a drill raises is its verdict
            text = f"{type(error).__name__}: {error}\n{''.join(traceback.format_tb(error.__traceback__))}"
            stage.check(RAN_TO_ITS_END, False, text)
        log_tail = stage.log_tail()
        _keep_logs(stage, drill.name, logs)
    finally:
        await _close(stage)
    passed = bool(stage.checks) and all(check.passed for check in stage.checks)
    return Verdict(
        name=drill.name,
        promise=drill.promise,
        outcome="skipped" if reason else "passed" if passed else "failed",
        seconds=time.monotonic() - started_at,
        checks=stage.checks,
        figures=stage.figures,
        history=stage.history,
        reason=reason,
        log_tail="" if passed or reason else log_tail,
    )


async def _close(stage: Stage) -> None:
    try:
        await stage.close()
    except DrillError as error:
        stage.check("nothing is left at the end", False, str(error))


def _keep_logs(stage: Stage, name: str, logs: Path | None) -> None:
    directory = stage.log_directory
    if logs is None or directory is None:
        return
    target = logs / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in (directory / "launch.log", *directory.glob("quadriga/*/logs/*")):
        if path.is_file():
            shutil.copyfile(path, target / path.name)
