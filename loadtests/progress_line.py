"""One line on the terminal that tells how far a run is."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from loadtests.driver import Progress

REFRESH_SECONDS = 0.5


def progress_text(progress: Progress, elapsed_seconds: float) -> str:
    """The line: requests done and in flight, errors, tokens a second of those done."""
    tokens = sum(record.output_tokens for record in progress.records)
    errors = sum(record.error_kind is not None for record in progress.records)
    return (
        f"{len(progress.records)}/{progress.total} done, {progress.in_flight} in flight, "
        f"{errors} errors, {tokens / max(elapsed_seconds, 1e-9):.0f} tokens/s, "
        f"{elapsed_seconds:.0f} s"
    )


@asynccontextmanager
async def progress_line(progress: Progress) -> AsyncIterator[None]:
    """Show the line while the block runs, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    task = asyncio.create_task(_refresh(progress))
    try:
        yield
    finally:
        task.cancel()
        sys.stderr.write("\r\x1b[K")


async def _refresh(progress: Progress) -> None:
    start = time.monotonic()
    while True:
        sys.stderr.write("\r\x1b[K" + progress_text(progress, time.monotonic() - start))
        sys.stderr.flush()
        await asyncio.sleep(REFRESH_SECONDS)
